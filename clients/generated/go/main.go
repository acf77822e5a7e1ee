// Sign in and ask who that is with the client of openapi-generator; prints the answer's address and id.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	ironauth "ironauth.example/generated/ironauth"
)

func main() {
	base, email, password := os.Args[1], os.Args[2], os.Args[3]
	configuration := ironauth.NewConfiguration()
	configuration.Servers = ironauth.ServerConfigurations{{URL: base}}
	client := ironauth.NewAPIClient(configuration)
	ctx := context.Background()

	_, answer, err := client.SignInAPI.AccessSignin(ctx).
		SignInInputRequest(*ironauth.NewSignInInputRequest(email, "not that one at all")).Execute()
	refused, isProblem := err.(*ironauth.GenericOpenAPIError)
	if answer == nil || answer.StatusCode != 401 || !isProblem {
		log.Fatalf("a wrong password is not refused: %v", err)
	}
	problem := refused.Model().(ironauth.Problem401InvalidCredentialsOrMfaRequired)

	pair, _, err := client.SignInAPI.AccessSignin(ctx).
		SignInInputRequest(*ironauth.NewSignInInputRequest(email, password)).Execute()
	if err != nil {
		log.Fatal(err)
	}
	signedIn := context.WithValue(ctx, ironauth.ContextAccessToken, pair.AccessToken)
	me, _, err := client.AccountAPI.AccessMe(signedIn).Execute()
	if err != nil {
		log.Fatal(err)
	}
	said, _ := json.Marshal(map[string]string{"refused": problem.Code, "email": me.Email, "id": me.Id})
	fmt.Println(string(said))
}
