package main

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

func init() { modes["bench"] = answerBench }

// benchCase asks for one claim on each of many nodes, some times over.
type benchCase struct {
	allocateCase
	Nodes  []*corev1.Node             `json:"nodes"`
	Claim  *resourceapi.ResourceClaim `json:"claim"`
	Passes int                        `json:"passes"`
}

type benchAnswer struct {
	Error        string    `json:"error,omitempty"`
	Nodes        int       `json:"nodes"`        // on which the claim fits
	Milliseconds []float64 `json:"milliseconds"` // of each pass over all nodes
}

func answerBench(line []byte) any {
	var asked benchCase
	answer := &benchAnswer{}
	err := json.Unmarshal(line, &asked)
	for pass := 0; err == nil && pass < asked.Passes; pass++ {
		var spent time.Duration
		answer.Nodes, spent, err = asked.pass()
		answer.Milliseconds = append(answer.Milliseconds, float64(spent.Microseconds())/1000)
	}
	if err != nil {
		answer.Error = err.Error()
	}
	return answer
}

// pass is what the scheduler does for one pod: it makes an allocator and asks it node by node.
func (c *benchCase) pass() (fits int, spent time.Duration, err error) {
	features, err := featuresOf(c.Features)
	if err != nil {
		return 0, 0, err
	}
	state, err := stateOf(&c.allocateCase, features.ConsumableCapacity)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx, features, state, classLister(c.Classes), c.Slices, celCache(features))
	if err != nil {
		return 0, 0, err
	}
	var failed error // one node or its devices: others may do
	for _, node := range c.Nodes {
		results, err := allocator.Allocate(ctx, node, []*resourceapi.ResourceClaim{c.Claim})
		if err != nil {
			failed = err
		} else if results != nil {
			fits++
		}
	}
	spent = time.Since(began)
	if fits == 0 {
		return 0, spent, failed
	}
	return fits, spent, nil
}
