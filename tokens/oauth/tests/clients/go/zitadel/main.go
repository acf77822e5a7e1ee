// zitadel/oidc with the default client.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"

	"github.com/zitadel/oidc/v3/pkg/client/rp"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"golang.org/x/oauth2"
)

type given struct {
	Issuer       string `json:"issuer"`
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	RedirectURI  string `json:"redirect_uri"`
	Email        string `json:"email"`
}

var lines = bufio.NewReader(os.Stdin)

func hear(value any) {
	line, err := lines.ReadBytes('\n')
	must(err)
	must(json.Unmarshal(line, value))
}

func say(key, value string) {
	line, err := json.Marshal(map[string]string{key: value})
	must(err)
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// begin: signin.go
func provider(ctx context.Context, issuer, id, secret, redirect string, options ...rp.Option) (rp.RelyingParty, error) {
	return rp.NewRelyingPartyOIDC(ctx, issuer, id, secret, redirect, []string{"openid", "profile", "email"}, options...)
}

func begin(party rp.RelyingParty, state, verifier string) string {
	return rp.AuthURL(state, party, rp.WithCodeChallenge(oauth2.S256ChallengeFromVerifier(verifier)))
}

func finish(ctx context.Context, party rp.RelyingParty, code, verifier string) (*oidc.UserInfo, error) {
	tokens, err := rp.CodeExchange[*oidc.IDTokenClaims](ctx, code, party, rp.WithCodeVerifier(verifier))
	if err != nil {
		return nil, err
	}
	return rp.Userinfo[*oidc.UserInfo](ctx, tokens.AccessToken, tokens.TokenType, tokens.IDTokenClaims.Subject, party)
}

// end

// signedIn walks from the link to who it is.
func signedIn(ctx context.Context, party rp.RelyingParty) (*oidc.UserInfo, error) {
	state, verifier := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	say("visit", begin(party, state, verifier))
	var callback string
	hear(&callback)
	answer, err := url.Parse(callback)
	must(err)
	if answer.Query().Get("state") != state {
		must(fmt.Errorf("not the answer to this request: %s", callback))
	}
	return finish(ctx, party, answer.Query().Get("code"), verifier)
}

func main() {
	var with given
	hear(&with)
	ctx := context.Background()
	party, err := provider(ctx, with.Issuer, with.ClientID, with.ClientSecret, with.RedirectURI)
	must(err)
	who, err := signedIn(ctx, party)
	must(err)
	if who.Email != with.Email {
		must(fmt.Errorf("somebody else: %+v", who))
	}
	say("passed", "signed in")
	only := rp.WithVerifierOpts(rp.WithSupportedSigningAlgorithms("ES256"))
	party, err = provider(ctx, with.Issuer, with.ClientID, with.ClientSecret, with.RedirectURI, only)
	must(err)
	if _, err = signedIn(ctx, party); err == nil {
		must(fmt.Errorf("another algorithm was not refused"))
	}
	say("passed", "refused: another algorithm")
}
