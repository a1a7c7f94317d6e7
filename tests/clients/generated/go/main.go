// Command main prints the name of the claim CLAIM, which it fetches with the generated client.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/google/uuid"

	"generated/dragoman"
)

func main() {
	signIn := dragoman.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Getenv("DRAGOMAN_TOKEN"))
		return nil
	})
	client, err := dragoman.NewClientWithResponses(os.Getenv("DRAGOMAN_URL"), signIn)
	if err != nil {
		panic(err)
	}
	id := uuid.MustParse(os.Getenv("CLAIM"))
	answer, err := client.ClaimsRetrieveWithResponse(context.Background(), id, &dragoman.ClaimsRetrieveParams{})
	if err != nil {
		panic(err)
	}
	if answer.JSON200 == nil {
		panic(string(answer.Body))
	}
	fmt.Println(answer.JSON200.Name)
}
