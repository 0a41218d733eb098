package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
	"github.com/rowtrail/rowtrail/configs"
)

const (
	defaultServer = "127.0.0.1:9092"
	defaultHTTP   = "127.0.0.1:8080"
	serverEnv     = "ROWTRAIL_SERVER"
	httpEnv       = "ROWTRAIL_HTTP"
	dialTimeout   = 3 * time.Second
	askTimeout    = 30 * time.Second
	rowsTimeout   = 5 * time.Minute // until an answer about rows begins: views may have to be folded first
	maxLine       = 128 << 20       // of a streamed answer: a record and its key
)

func (a *app) serverFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.server, "server", "", "address of the Kafka listener (else -c FILE, "+serverEnv+", "+defaultServer+")")
	c.Flags().StringSliceVar(&a.brokers, "brokers", nil, "addresses of brokers of another Kafka cluster, with commas between them, instead of --server")
	c.MarkFlagsMutuallyExclusive("server", "brokers")
	a.loginFlags(c)
}

// nodeFileFlag is -c for a command whose --config is a topic's property: it hides the flag that all commands share.
func (a *app) nodeFileFlag(c *cobra.Command) {
	c.Flags().StringVarP(&a.config, "node-config", "c", "", "the node's YAML file, from which the addresses and the log-in are taken")
}

func (a *app) httpFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.http, "http", "", "address of the HTTP listener (else -c FILE, "+httpEnv+", "+defaultHTTP+")")
}

// address resolves where the node is: flag, then file, then environment, then the default.
func (a *app) address(flag, env, standard string, fromFile func(configs.Listen) (configs.Address, string)) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if a.config != "" {
		listen, err := configs.LoadListen(a.config)
		if err != nil {
			return "", err
		}
		address, name := fromFile(listen)
		if address == "" || address.Port() == 0 {
			return "", fmt.Errorf("%s: listen.%s names no port to connect to; give the address with --%s", a.config, name,
				map[string]string{"kafka": "server", "http": "http"}[name])
		}
		return string(address), nil
	}
	if fromEnv := os.Getenv(env); fromEnv != "" {
		return fromEnv, nil
	}
	return standard, nil
}

func (a *app) serverAddress() (string, error) {
	return a.address(a.server, serverEnv, defaultServer, func(l configs.Listen) (configs.Address, string) {
		if l.Kafka.Wildcard() || l.TLS.Enabled() && l.Advertised != "" { // whose name the certificate has
			return l.Advertised, "kafka"
		}
		return l.Kafka, "kafka"
	})
}

func (a *app) httpAddress() (string, error) {
	return a.address(a.http, httpEnv, defaultHTTP, func(l configs.Listen) (configs.Address, string) {
		if l.HTTP.Wildcard() {
			return configs.Address(fmt.Sprintf("127.0.0.1:%d", l.HTTP.Port())), "http"
		}
		return l.HTTP, "http"
	})
}

// seeds are where the log is, and the cluster that the file names when the node holds none.
func (a *app) seeds() ([]string, configs.Kafka, error) {
	var elsewhere configs.Kafka
	if a.config != "" {
		var err error
		if elsewhere, err = configs.LoadKafka(a.config); err != nil {
			return nil, elsewhere, err
		}
	}
	switch {
	case len(a.brokers) > 0:
		return a.brokers, elsewhere, nil
	case a.server == "" && elsewhere.Enabled():
		return elsewhere.Brokers, elsewhere, nil
	}
	address, err := a.serverAddress()
	return []string{address}, elsewhere, err
}

// kafka connects to the log: the node's Kafka listener, or the cluster that holds it.
func (a *app) kafka(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, *kadm.Client, error) {
	seeds, elsewhere, err := a.seeds()
	if err != nil {
		return nil, nil, err
	}
	address := strings.Join(seeds, ",")
	var secure []kgo.Opt
	if elsewhere.Enabled() {
		secure, err = a.kafkaOptions(elsewhere)
	} else {
		secure, err = a.loginOptions(seeds[0])
	}
	if err != nil {
		return nil, nil, err
	}
	client, err := kgo.NewClient(slices.Concat([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.ClientID("rowtrail-cli"), kgo.DialTimeout(dialTimeout), kgo.RetryTimeout(askTimeout),
	}, secure, opts)...)
	if err != nil {
		return nil, nil, usage(fmt.Errorf("connect to %s: %w", address, err))
	}
	ping, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := client.Ping(ping); err != nil {
		client.Close()
		return nil, nil, explainPing(address, err)
	}
	return client, kadm.NewClient(client), nil
}

// administer runs ask with a client of the node's Kafka listener, for as long as a question may take.
func (a *app) administer(ctx context.Context, ask func(ctx context.Context, adm *kadm.Client) error) error {
	_, adm, err := a.kafka(ctx)
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err = ask(ctx, adm); ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		return unreachable("no answer within %v; most nodes of the cluster may be away (`rowtrail cluster status`): %w", askTimeout, err)
	}
	return err
}

// escapeSegment writes a part of a path. Dots alone would be taken for a folder.
func escapeSegment(segment string) string {
	if segment == "." || segment == ".." {
		return strings.ReplaceAll(segment, ".", "%2E")
	}
	return url.PathEscape(segment)
}

// get asks the node over HTTP. The caller closes the body of the answer, which is 200.
func (a *app) get(ctx context.Context, query url.Values, path ...string) (*http.Response, error) {
	return a.request(ctx, http.MethodGet, nil, query, path...)
}

// post has the node change something.
func (a *app) post(ctx context.Context, body any, path ...string) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := a.request(ctx, http.MethodPost, text, nil, path...)
	if err != nil {
		return err
	}
	closing(answer)
	return nil
}

// request is get by any method.
func (a *app) request(ctx context.Context, method string, body []byte, query url.Values, path ...string) (*http.Response, error) {
	address, err := a.httpAddress()
	if err != nil {
		return nil, err
	}
	target := "http://" + address + "/v1"
	for _, segment := range path {
		target += "/" + escapeSegment(segment)
	}
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, usage(fmt.Errorf("address %q: %w", address, err))
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: rowsTimeout}}
	answer, err := client.Do(request)
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return nil, unreachable("the node at http://%s takes connections and does not answer; look at its log, or ask another node with --http", address)
	}
	if err != nil {
		return nil, unreachable("no rowtrail answers at http://%s; start it with `rowtrail serve -c FILE`, or name its HTTP listener with --http", address)
	}
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer closing(answer)
	var why admin.Failure
	if json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&why) != nil || why.Error == "" {
		return nil, unreachable("what answers at http://%s is no rowtrail (%s); name its HTTP listener with --http", address, answer.Status)
	}
	switch answer.StatusCode {
	case http.StatusNotFound:
		return nil, notFound("%s", why.Error)
	case http.StatusBadRequest:
		return nil, usage(errors.New(why.Error))
	}
	return nil, errors.New(why.Error)
}

// closing ends an answer; a failed end of reading is no news.
func closing(answer *http.Response) { _ = answer.Body.Close() }

// ask reads a whole answer into v.
func (a *app) ask(ctx context.Context, v any, path ...string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := a.get(ctx, nil, path...)
	if err != nil {
		return err
	}
	defer closing(answer)
	if err := json.NewDecoder(answer.Body).Decode(v); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}

// stream reads an answer of JSON lines one by one.
func stream(answer *http.Response, each func(line []byte) error) error {
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		line := lines.Bytes()
		if bytes.HasPrefix(line, []byte(`{"error":`)) {
			var body admin.Failure
			if json.Unmarshal(line, &body) == nil {
				return fmt.Errorf("the answer broke off: %s", body.Error)
			}
		}
		if err := each(line); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the answer broke off: %w", err)
	}
	return nil
}
