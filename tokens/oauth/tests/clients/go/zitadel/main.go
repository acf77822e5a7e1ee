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
	Whole        bool   `json:"whole"`
	Gone         string `json:"gone"`
	Plain        bool   `json:"plain"`
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
	code, verifier := visited(party)
	return finish(ctx, party, code, verifier)
}

// visited walks from the link to the code.
func visited(party rp.RelyingParty) (string, string) {
	state, verifier := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	say("visit", begin(party, state, verifier))
	var callback string
	hear(&callback)
	answer, err := url.Parse(callback)
	must(err)
	if answer.Query().Get("state") != state {
		must(fmt.Errorf("not the answer to this request: %s", callback))
	}
	return answer.Query().Get("code"), verifier
}

// tokensOf signs in once more.
func tokensOf(ctx context.Context, party rp.RelyingParty) *oidc.Tokens[*oidc.IDTokenClaims] {
	code, verifier := visited(party)
	tokens, err := rp.CodeExchange[*oidc.IDTokenClaims](ctx, code, party, rp.WithCodeVerifier(verifier))
	must(err)
	return tokens
}

// whole renews, revokes and signs out.
func whole(ctx context.Context, with given) {
	party, err := provider(ctx, with.Issuer, with.ClientID, with.ClientSecret, with.RedirectURI)
	must(err)
	tokens := tokensOf(ctx, party)
	renewed, err := rp.RefreshTokens[*oidc.IDTokenClaims](ctx, party, tokens.RefreshToken, "", "")
	must(err)
	if renewed.RefreshToken == tokens.RefreshToken {
		must(fmt.Errorf("not renewed"))
	}
	say("passed", "refreshed")
	must(rp.RevokeToken(ctx, party, renewed.RefreshToken, "refresh_token"))
	if _, err = rp.RefreshTokens[*oidc.IDTokenClaims](ctx, party, renewed.RefreshToken, "", ""); err == nil {
		must(fmt.Errorf("not revoked"))
	}
	say("passed", "revoked")
	url, err := rp.EndSession(ctx, party, tokensOf(ctx, party).IDToken, with.Gone, "bye", "", nil)
	must(err)
	say("visit", url.String())
	var back string
	hear(&back)
	if back != with.Gone+"?state=bye" {
		must(fmt.Errorf("not back after signing out: %s", back))
	}
	say("passed", "signed out")
}

// plain signs in without PKCE, with a client of the profile oidc.
func plain(ctx context.Context, party rp.RelyingParty, with given) {
	say("visit", rp.AuthURL(oauth2.GenerateVerifier(), party))
	var callback string
	hear(&callback)
	answer, err := url.Parse(callback)
	must(err)
	tokens, err := rp.CodeExchange[*oidc.IDTokenClaims](ctx, answer.Query().Get("code"), party)
	must(err)
	who, err := rp.Userinfo[*oidc.UserInfo](ctx, tokens.AccessToken, tokens.TokenType, tokens.IDTokenClaims.Subject, party)
	must(err)
	if who.Email != with.Email {
		must(fmt.Errorf("somebody else: %+v", who))
	}
	say("passed", "signed in")
}

func main() {
	var with given
	hear(&with)
	ctx := context.Background()
	party, err := provider(ctx, with.Issuer, with.ClientID, with.ClientSecret, with.RedirectURI)
	must(err)
	if with.Plain {
		plain(ctx, party, with)
		return
	}
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
	if with.Whole {
		whole(ctx, with)
	}
}
