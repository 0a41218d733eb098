package sasl

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"
)

// nonceBytes is the entropy of the server's part of a nonce.
const nonceBytes = 24

// scramServer is one SCRAM exchange (RFC 5802) without channel binding. Where the RFC wants a client to repeat the
// nonce, it may put something before it: librdkafka before 2.6 does, and Kafka lets it. The proof covers what was sent.
type scramServer struct {
	mechanism  string
	find       func(user string) Credential
	credential Credential
	header     string // gs2 header
	auth       string // what both sides have said
	nonce      string
}

// first takes the client's first message, and returns who it says it is.
func (s *scramServer) first(message string) (user, answer string, ok bool) {
	// header: flag of channel binding, authorization id; then the name, the nonce and extensions.
	parts := strings.SplitN(message, ",", 5)
	if len(parts) < 4 || !utf8.ValidString(message) || parts[0] != "n" && parts[0] != "y" {
		return "", "", false
	}
	escaped, named := strings.CutPrefix(parts[2], "n=")
	nonce, random := strings.CutPrefix(parts[3], "r=")
	user, valid := unescape(escaped)
	if !named || !random || !valid || user == "" || nonce == "" {
		return "", "", false
	}
	if id, given := strings.CutPrefix(parts[1], "a="); given && id != escaped || !given && parts[1] != "" {
		return "", "", false
	}
	s.credential = s.find(user)
	own := make([]byte, nonceBytes)
	_, _ = rand.Read(own) // never fails: crypto/rand ends the process instead
	s.header = parts[0] + "," + parts[1] + ","
	s.nonce = nonce + base64.RawStdEncoding.EncodeToString(own)
	answer = "r=" + s.nonce + ",s=" + base64.StdEncoding.EncodeToString(s.credential.Salt) + ",i=" + strconv.Itoa(s.credential.Iterations)
	s.auth = message[len(s.header):] + "," + answer
	return user, answer, true
}

// last takes the client's proof and returns the server's.
func (s *scramServer) last(message string) (answer string, ok bool) {
	at := strings.LastIndex(message, ",p=")
	if at < 0 {
		return "", false
	}
	parts := strings.SplitN(message[:at], ",", 3)
	proof, err := base64.StdEncoding.DecodeString(message[at+len(",p="):])
	h := hashOf(s.mechanism)
	if len(parts) < 2 || err != nil || len(proof) != h().Size() || parts[0] != "c="+base64.StdEncoding.EncodeToString([]byte(s.header)) ||
		!strings.HasPrefix(parts[1], "r=") || !strings.HasSuffix(parts[1], s.nonce) {
		return "", false
	}
	s.auth += "," + message[:at]
	signature := keyed(h, s.credential.StoredKey, s.auth)
	clientKey := make([]byte, len(proof))
	subtle.XORBytes(clientKey, proof, signature)
	digest := h()
	digest.Write(clientKey)
	if !hmac.Equal(digest.Sum(nil), s.credential.StoredKey) {
		return "", false
	}
	return "v=" + base64.StdEncoding.EncodeToString(keyed(h, s.credential.ServerKey, s.auth)), true
}

// unescape reads a name: =2C is a comma, =3D an equals sign, and another equals sign is wrong.
func unescape(name string) (string, bool) {
	var out bytes.Buffer
	for {
		before, after, found := strings.Cut(name, "=")
		out.WriteString(before)
		switch {
		case !found:
			return out.String(), true
		case strings.HasPrefix(after, "2C"):
			out.WriteByte(',')
		case strings.HasPrefix(after, "3D"):
			out.WriteByte('=')
		default:
			return "", false
		}
		name = after[2:]
	}
}
