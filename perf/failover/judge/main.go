// Command judge says which sessions of a history are not linearizable, one on a line; exit status 1 where there are any.
//
// A session is a counter with an end: a refresh token of generation g is exchanged for g+1 once, for everybody who presents it
// within the grace window; when an older one is presented afterwards, the session ends. What was answered by 503, or not at
// all, may have happened at any time since, or never. What the database has of it in the end is its last operation: a lost
// refresh, after which tries were answered by 503, would otherwise look like one of these that was found out as used.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	Session    string `json:"session"`
	Client     int    `json:"client"`
	Act        string `json:"act"`
	Generation int    `json:"generation"`
	Outcome    string `json:"outcome"`
	Call       int64  `json:"call"`
	Done       int64  `json:"done"`
}

type session struct {
	generation int
	ended      bool
}

const unopened = -1

func one(next session) []interface{} { return []interface{}{next} }
func two(a, b session) []interface{} { return []interface{}{a, b} }
func ended(state session) session    { return session{state.generation, true} }
func renewed(state session) session  { return session{state.generation + 1, state.ended} }
func illegal() []interface{}         { return nil }

// step returns what a session may be after an operation with its outcome; nothing where that outcome is impossible.
func step(from, asked, _ interface{}) []interface{} {
	state, op := from.(session), asked.(operation)
	switch op.Act {
	case "open":
		if state.generation != unopened {
			return illegal()
		}
		return one(session{op.Generation, false})
	case "refresh":
		return refresh(state, op)
	case "stored": // read from the database in the end: "refused" stands for a session that has ended
		if state.generation == op.Generation && state.ended == (op.Outcome == "refused") {
			return one(state)
		}
	case "end":
		switch {
		case op.Outcome == "ok":
			return one(ended(state))
		case op.Outcome == "unknown":
			return two(state, ended(state))
		case state.ended:
			return one(state)
		}
	}
	return illegal()
}

func refresh(state session, op operation) []interface{} {
	isNewest, isRenewed := state.generation == op.Generation, state.generation == op.Generation+1
	switch op.Outcome {
	case "ok":
		switch {
		case state.ended:
		case isNewest:
			return one(renewed(state))
		case isRenewed: // in the grace window: the same successor
			return one(state)
		}
		return illegal()
	case "refused":
		switch {
		case state.ended:
			return one(state)
		case state.generation > op.Generation: // found out as used before
			return one(ended(state))
		}
		return illegal()
	}
	switch { // unknown
	case state.ended:
		return one(state)
	case isNewest:
		return two(state, renewed(state))
	case state.generation > op.Generation:
		return two(state, ended(state))
	}
	return one(state)
}

func read(path string) (map[string][]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	histories := map[string][]porcupine.Operation{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var op operation
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			return nil, err
		}
		histories[op.Session] = append(histories[op.Session], porcupine.Operation{
			ClientId: op.Client, Input: op, Call: op.Call, Output: op.Outcome, Return: op.Done,
		})
	}
	return histories, lines.Err()
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: judge FILE")
		os.Exit(2)
	}
	histories, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []interface{} { return one(session{unopened, false}) },
		Step: step,
	}
	model := nondeterministic.ToModel()
	names := make([]string, 0, len(histories))
	for name := range histories {
		names = append(names, name)
	}
	sort.Strings(names)
	status := 0
	for _, name := range names {
		switch porcupine.CheckOperationsTimeout(model, histories[name], 10*time.Second) {
		case porcupine.Illegal:
			fmt.Printf("%s: %d operations are not linearizable\n", name, len(histories[name]))
			status = 1
		case porcupine.Unknown:
			fmt.Fprintf(os.Stderr, "%s: undecided after 10 s\n", name)
			os.Exit(2)
		}
	}
	os.Exit(status)
}
