// The CEL compiler of Kubernetes' device selectors, asked over pipes.
//
// One JSON object per line comes in, one goes out; see question and answer. Nothing is kept between lines.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
)

type device struct {
	Driver                   string                                                    `json:"driver"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
}

type question struct {
	Expression string   `json:"expression"`
	Devices    []device `json:"devices"`
	Features   struct {
		ConsumableCapacity bool `json:"consumableCapacity"`
		ListTypeAttributes bool `json:"listTypeAttributes"`
	} `json:"features"`
}

// verdict of the scheduler on one device. Cost is what the evaluation took, 0 if it failed.
type verdict struct {
	Matches bool   `json:"matches"`
	Error   string `json:"error,omitempty"`
	Cost    uint64 `json:"cost"`
}

// answer has the API server's view of a new expression (error, cost) and the scheduler's verdicts.
type answer struct {
	Error    string    `json:"error,omitempty"`
	Cost     uint64    `json:"cost"`
	Verdicts []verdict `json:"verdicts,omitempty"`
}

func ask(asked question) answer {
	compiler := cel.GetCompiler(cel.Features{
		EnableConsumableCapacity: asked.Features.ConsumableCapacity,
		EnableListTypeAttributes: asked.Features.ListTypeAttributes,
	})
	fresh := environment.NewExpressions
	admitted := compiler.CompileCELExpression(asked.Expression, cel.Options{EnvType: &fresh})
	if admitted.Error != nil {
		return answer{Error: admitted.Error.Detail, Cost: admitted.MaxCost}
	}
	said := answer{Cost: admitted.MaxCost}
	program := compiler.CompileCELExpression(asked.Expression, cel.Options{DisableCostEstimation: true})
	if program.Error != nil {
		said.Error = "stored: " + program.Error.Detail
		return said
	}
	for _, one := range asked.Devices {
		matches, details, err := program.DeviceMatches(context.Background(), cel.Device{
			Driver:                   one.Driver,
			AllowMultipleAllocations: one.AllowMultipleAllocations,
			Attributes:               one.Attributes,
			Capacity:                 one.Capacity,
		})
		told := verdict{Matches: matches}
		if err != nil {
			told.Error = err.Error()
		}
		if details != nil && details.ActualCost() != nil {
			told.Cost = *details.ActualCost()
		}
		said.Verdicts = append(said.Verdicts, told)
	}
	return said
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, "not a question:", err)
			os.Exit(1)
		}
		if err := json.NewEncoder(out).Encode(ask(asked)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		out.Flush()
	}
}
