package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// longestSearch bounds one case: a search may grow with the factorial of the devices.
const longestSearch = 4 * time.Second

// timesForEveryOrder is enough to see each of some pools come first with hardly any doubt.
const timesForEveryOrder = 20

type deviceName struct {
	Driver  string    `json:"driver"`
	Pool    string    `json:"pool"`
	Device  string    `json:"device"`
	ShareID types.UID `json:"shareID"`
}

func (d deviceName) id() structured.DeviceID {
	return structured.MakeDeviceID(d.Driver, d.Pool, d.Device)
}

type capacities map[resourceapi.QualifiedName]resource.Quantity

type allocateCase struct {
	Name      string                       `json:"name"`
	Features  map[string]bool              `json:"features"`
	Classes   []*resourceapi.DeviceClass   `json:"classes"`
	Slices    []*resourceapi.ResourceSlice `json:"slices"`
	Node      corev1.Node                  `json:"node"`
	Claims    []*resourceapi.ResourceClaim `json:"claims"`
	Allocated struct {
		Devices          []deviceName          `json:"devices"`
		Shared           []deviceName          `json:"shared"`
		ConsumedCapacity map[string]capacities `json:"consumedCapacity"`
	} `json:"allocated"`
}

// allocateAnswer has no results and no error where nothing fits on the node.
type allocateAnswer struct {
	Name      string                         `json:"name"`
	Error     *string                        `json:"error"`
	OnNode    bool                           `json:"onNode,omitempty"` // the error stops this node only
	Panic     string                         `json:"panic,omitempty"`
	Timeout   bool                           `json:"timeout,omitempty"`
	Results   []resourceapi.AllocationResult `json:"results"`
	Allocator string                         `json:"allocator"` // stable, incubating or experimental
	Steps     int64                          `json:"steps"`     // how often upstream looked for one more device

	// What else upstream answers to the same case: its stable allocator takes pools in the random order of a Go map.
	Also []*allocateAnswer `json:"also,omitempty"`
}

func (a *allocateAnswer) fail(err error) {
	text := err.Error()
	a.Error = &text
	a.OnNode = errors.Is(err, structured.ErrFailedAllocationOnNode)
}

func answerAllocate(line []byte) any {
	var asked allocateCase
	if err := json.Unmarshal(line, &asked); err != nil {
		named := struct{ Name string }{}
		_ = json.Unmarshal(line, &named) // the name alone, if it can be read
		answer := &allocateAnswer{Name: named.Name}
		answer.fail(fmt.Errorf("malformed case: %w", err))
		return answer
	}
	answer := &allocateAnswer{Name: asked.Name}
	answer.ask(&asked)
	if answer.Allocator == "stable" && !answer.Timeout && asked.pools() > 1 {
		for range timesForEveryOrder {
			other := &allocateAnswer{Name: asked.Name}
			other.ask(&asked)
			answer.Also = append(answer.Also, other)
		}
	}
	return answer
}

// unallocated leaves out the claims that the scheduler would not give to the allocator.
func (c *allocateCase) unallocated() []*resourceapi.ResourceClaim {
	return slices.DeleteFunc(slices.Clone(c.Claims), func(claim *resourceapi.ResourceClaim) bool {
		return claim.Status.Allocation != nil
	})
}

func (c *allocateCase) pools() int {
	pools := sets.New[[2]string]()
	for _, slice := range c.Slices {
		pools.Insert([2]string{slice.Spec.Driver, slice.Spec.Pool.Name})
	}
	return pools.Len()
}

func (a *allocateAnswer) ask(asked *allocateCase) {
	defer func() {
		if cause := recover(); cause != nil {
			a.Panic, a.Results = fmt.Sprint(cause), nil
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), longestSearch)
	defer cancel()
	features, err := featuresOf(asked.Features)
	if err != nil {
		a.fail(err)
		return
	}
	state, err := stateOf(asked, features.ConsumableCapacity)
	if err != nil {
		a.fail(err)
		return
	}
	allocator, err := structured.NewAllocator(ctx, features, state, classLister(asked.Classes), asked.Slices, celCache(features))
	if err != nil {
		a.fail(err)
		return
	}
	a.Allocator = strings.Trim(strings.TrimSuffix(fmt.Sprintf("%T", allocator), ".Allocator"), "*")
	defer func() { a.Steps = stepsOf(allocator) }()
	results, err := allocator.Allocate(ctx, &asked.Node, asked.unallocated())
	a.Timeout = ctx.Err() != nil
	if err != nil {
		a.fail(err)
		return
	}
	a.Results = results
}

// featuresOf sets the switches by the names that the fields of structured.Features have.
func featuresOf(names map[string]bool) (features structured.Features, err error) {
	fields := reflect.ValueOf(&features).Elem()
	for name, on := range names {
		field := fields.FieldByName(name)
		if !field.IsValid() {
			return features, fmt.Errorf("there is no feature %q", name)
		}
		field.SetBool(on)
	}
	return features, nil
}

// Compiling costs more than all else, and so does a compiler: both are kept from case to case.
var celCaches = map[cel.Features]*cel.Cache{}

func celCache(features structured.Features) *cel.Cache {
	key := cel.Features{
		EnableConsumableCapacity: features.ConsumableCapacity,
		EnableListTypeAttributes: features.ListTypeAttributes,
	}
	if celCaches[key] == nil {
		celCaches[key] = cel.NewCache(1000, key)
	}
	return celCaches[key]
}

// stateOf tells what is in use, in the shape that the scheduler keeps: what `allocated` lists as it is, and what
// allocated claims have by the rules of the scheduler.
func stateOf(asked *allocateCase, consumable bool) (structured.AllocatedState, error) {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, device := range asked.Allocated.Devices {
		state.AllocatedDevices.Insert(device.id())
	}
	for _, device := range asked.Allocated.Shared {
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(device.id(), &device.ShareID))
	}
	for name, consumed := range asked.Allocated.ConsumedCapacity {
		// The name of a pool may have slashes, those of drivers and devices have none.
		first, last := strings.Index(name, "/"), strings.LastIndex(name, "/")
		if first == last {
			return state, fmt.Errorf("consumedCapacity: %q is not driver/pool/device", name)
		}
		id := structured.MakeDeviceID(name[:first], name[first+1:last], name[last+1:])
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, consumed))
	}
	for _, claim := range asked.Claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			switch {
			case result.AdminAccess != nil && *result.AdminAccess:
			case consumable && result.ShareID != nil:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
				if result.ConsumedCapacity != nil {
					state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
				}
			default:
				state.AllocatedDevices.Insert(id)
			}
		}
	}
	return state, nil
}

type classLister []*resourceapi.DeviceClass

func (l classLister) List() ([]*resourceapi.DeviceClass, error) { return l, nil }

func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range l {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

// stepsOf reads a statistic whose type is internal to Kubernetes; not every implementation counts.
func stepsOf(allocator structured.Allocator) int64 {
	method := reflect.ValueOf(allocator).MethodByName("GetStats")
	if !method.IsValid() {
		return 0
	}
	return method.Call(nil)[0].FieldByName("NumAllocateOneInvocations").Int()
}
