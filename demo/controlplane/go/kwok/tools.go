//go:build tools

// Package tools names the command that this module exists to build.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
