// go-oidc and x/oauth2: sign-in, verified ID token, userinfo, refresh; with "poll" as argument a verifier of tokens.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

type registered struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
}

type given struct {
	Issuer      string                `json:"issuer"`
	RedirectURI string                `json:"redirect_uri"`
	Email       string                `json:"email"`
	Clients     map[string]registered `json:"clients"`
	Whole       bool                  `json:"whole"`
	Plain       bool                  `json:"plain"`
}

var lines = bufio.NewReaderSize(os.Stdin, 1<<16)

// hear returns whether the other side has said something more, and reads it.
func hear(value any) bool {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return false
	}
	must(json.Unmarshal(line, value))
	return true
}

func say(value any) {
	line, err := json.Marshal(value)
	must(err)
	fmt.Println(string(line))
}

func passed(step string) { say(map[string]string{"passed": step}) }

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func refused(err error, word string) {
	if err == nil || !strings.Contains(err.Error(), word) {
		must(fmt.Errorf("not refused (%s): %w", word, err))
	}
}

func main() {
	var with given
	hear(&with)
	ctx := context.Background()
	provider, err := oidc.NewProvider(ctx, with.Issuer)
	must(err)
	if len(os.Args) > 1 {
		poll(ctx, provider)
		return
	}
	if with.Plain {
		plain(ctx, provider, with)
		return
	}
	if with.Whole {
		whole(ctx, provider, with)
		return
	}
	for _, name := range []string{"default", "basic", "es256", "rs256"} {
		signIn(ctx, provider, with, with.Clients[name])
		passed(name)
	}
}

// plain signs in without PKCE, with a client of the profile oidc.
func plain(ctx context.Context, provider *oidc.Provider, with given) {
	client := with.Clients["default"]
	config := oauth2.Config{
		ClientID:     client.ClientID,
		ClientSecret: client.ClientSecret,
		Endpoint:     provider.Endpoint(),
		RedirectURL:  with.RedirectURI,
		Scopes:       []string{oidc.ScopeOpenID, "profile", "email"},
	}
	state, nonce := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	say(map[string]string{"visit": config.AuthCodeURL(state, oidc.Nonce(nonce))})
	var callback string
	hear(&callback)
	token, err := config.Exchange(ctx, query(callback).Get("code"))
	must(err)
	verified(ctx, provider, client, token, nonce)
	passed("signed in")
}

// whole has the default client alone, and hears of a sign-out, too.
func whole(ctx context.Context, provider *oidc.Provider, with given) {
	client := with.Clients["default"]
	subject := signIn(ctx, provider, with, client)
	passed("signed in")
	passed("refreshed")
	passed("refused: another audience")
	say(map[string]bool{"sign_out": true})
	var token string
	hear(&token)
	_, err := provider.Verifier(&oidc.Config{ClientID: "another"}).VerifyLogout(ctx, token)
	refused(err, "audience")
	told, err := provider.Verifier(&oidc.Config{ClientID: client.ClientID}).VerifyLogout(ctx, token)
	must(err)
	if told.Subject != subject || told.SessionID == "" {
		must(fmt.Errorf("told of somebody else: %+v", told))
	}
	passed("told of a sign-out")
}

// signIn walks through one client's life, and returns who it is.
func signIn(ctx context.Context, provider *oidc.Provider, with given, client registered) string {
	// begin: signin.go
	config := oauth2.Config{
		ClientID:     client.ClientID,
		ClientSecret: client.ClientSecret,
		Endpoint:     provider.Endpoint(), // of oidc.NewProvider(ctx, issuer)
		RedirectURL:  with.RedirectURI,
		Scopes:       []string{oidc.ScopeOpenID, "profile", "email", oidc.ScopeOfflineAccess},
	}
	// end
	proof, state, nonce := oauth2.GenerateVerifier(), oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	say(map[string]string{"visit": config.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(proof))})
	var callback string
	hear(&callback)
	answer := query(callback)
	if answer.Get("state") != state || answer.Get("iss") != with.Issuer {
		must(fmt.Errorf("not the answer to this request: %s", callback))
	}
	_, err := config.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(oauth2.GenerateVerifier()))
	refused(err, "invalid_grant")
	token, err := config.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(proof))
	must(err)
	subject := verified(ctx, provider, client, token, nonce)

	info, err := provider.UserInfo(ctx, config.TokenSource(ctx, token))
	must(err)
	if info.Subject != subject || info.Email != with.Email {
		must(fmt.Errorf("userinfo is about somebody else: %+v", info))
	}
	renewed, err := config.TokenSource(ctx, &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
	must(err)
	if renewed.RefreshToken == token.RefreshToken || verified(ctx, provider, client, renewed, "") != subject {
		must(fmt.Errorf("not renewed"))
	}
	return subject
}

// verified returns whom the ID token is about, after everything go-oidc checks, and what its caller has to.
func verified(ctx context.Context, provider *oidc.Provider, client registered, token *oauth2.Token, nonce string) string {
	raw, _ := token.Extra("id_token").(string)
	if nonce == "" && raw == "" {
		must(fmt.Errorf("no ID token after a refresh"))
	}
	_, err := provider.Verifier(&oidc.Config{ClientID: "another"}).Verify(ctx, raw)
	refused(err, "audience")
	found, err := provider.Verifier(&oidc.Config{ClientID: client.ClientID}).Verify(ctx, raw)
	must(err)
	must(found.VerifyAccessToken(token.AccessToken))
	if nonce != "" && found.Nonce != nonce {
		must(fmt.Errorf("nonce %q, not %q", found.Nonce, nonce))
	}
	return found.Subject
}

// poll verifies one token a line, by one key set kept in memory as go-oidc keeps it, and says what came of it.
func poll(ctx context.Context, provider *oidc.Provider) {
	verifier := provider.VerifierContext(ctx, &oidc.Config{SkipClientIDCheck: true})
	var token string
	for hear(&token) {
		if _, err := verifier.Verify(ctx, token); err != nil {
			say(err.Error())
		} else {
			say("")
		}
	}
}

// query returns the parameters of an address.
func query(address string) url.Values {
	parsed, err := url.Parse(address)
	must(err)
	return parsed.Query()
}
