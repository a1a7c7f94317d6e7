package main

import (
	"context"
	"encoding/json"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

type celDevice struct {
	Driver                   string                                                    `json:"driver"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
}

type celQuestion struct {
	Expression string          `json:"expression"`
	Devices    []celDevice     `json:"devices"`
	Features   map[string]bool `json:"features"`
}

// celVerdict is the scheduler's on one device; Cost is what the evaluation took.
type celVerdict struct {
	Matches bool   `json:"matches"`
	Error   string `json:"error,omitempty"`
	Cost    uint64 `json:"cost"`
}

// celAnswer has what the API server finds of a new selector, and the verdicts if it takes it. Cost is its estimate.
type celAnswer struct {
	Error    string       `json:"error,omitempty"`
	Cost     uint64       `json:"cost"`
	Verdicts []celVerdict `json:"verdicts,omitempty"`
}

// answerCel asks the compiler of selectors twice: as the API server, which knows the functions of the release before,
// and as the scheduler, which knows all.
func answerCel(line []byte) any {
	var asked celQuestion
	if err := json.Unmarshal(line, &asked); err != nil {
		return celAnswer{Error: "not a question: " + err.Error()}
	}
	compiler := dracel.GetCompiler(dracel.Features{
		EnableConsumableCapacity: asked.Features["ConsumableCapacity"],
		EnableListTypeAttributes: asked.Features["ListTypeAttributes"],
	})
	envType := environment.NewExpressions
	admitted := compiler.CompileCELExpression(asked.Expression, dracel.Options{EnvType: &envType})
	if admitted.Error != nil {
		return celAnswer{Error: admitted.Error.Detail}
	}
	answer := celAnswer{Cost: admitted.MaxCost}
	if admitted.MaxCost > resourceapi.CELSelectorExpressionMaxCost {
		answer.Error = "too complex, exceeds cost limit"
		return answer
	}
	stored := compiler.CompileCELExpression(asked.Expression, dracel.Options{DisableCostEstimation: true})
	if stored.Error != nil {
		answer.Error = stored.Error.Detail
		return answer
	}
	for _, one := range asked.Devices {
		answer.Verdicts = append(answer.Verdicts, celVerdictOn(stored, one))
	}
	return answer
}

func celVerdictOn(program dracel.CompilationResult, one celDevice) celVerdict {
	matches, details, err := program.DeviceMatches(context.Background(), dracel.Device{
		Driver:                   one.Driver,
		AllowMultipleAllocations: one.AllowMultipleAllocations,
		Attributes:               one.Attributes,
		Capacity:                 one.Capacity,
	})
	verdict := celVerdict{Matches: matches}
	if err != nil {
		verdict.Error = err.Error()
	}
	if details != nil && details.ActualCost() != nil {
		verdict.Cost = *details.ActualCost()
	}
	return verdict
}
