package record

// keepUnpacked is how large a Reader's buffer may be for the Reader to be kept.
const keepUnpacked = 1 << 20

// Pool lends out a fixed number of Readers, so that batches which are small on the wire and huge inside cost memory only
// that many times at once (invariant 9).
type Pool struct {
	max     int
	readers chan *Reader
}

// NewPool returns a Pool of n Readers that refuse batches of more than maxBytes of decompressed records.
func NewPool(n, maxBytes int) *Pool {
	p := &Pool{max: maxBytes, readers: make(chan *Reader, n)}
	for range n {
		p.readers <- NewReader(maxBytes)
	}
	return p
}

// Get waits for a Reader. It goes back with Put.
func (p *Pool) Get() *Reader { return <-p.readers }

// Put gives a Reader back; nothing that it returned may be used any more.
func (p *Pool) Put(r *Reader) {
	if cap(r.d.out) > keepUnpacked {
		r = NewReader(p.max)
	}
	p.readers <- r
}

// Rewriters lends out a fixed number of Rewriters, made when they are first needed.
type Rewriters struct {
	max int
	all chan *Rewriter // nil: not made yet
}

// NewRewriters returns n Rewriters that refuse batches of more than maxBytes of decompressed records.
func NewRewriters(n, maxBytes int) *Rewriters {
	p := &Rewriters{max: maxBytes, all: make(chan *Rewriter, n)}
	for range n {
		p.all <- nil
	}
	return p
}

// Get waits for a Rewriter. It goes back with Put.
func (p *Rewriters) Get() *Rewriter {
	if w := <-p.all; w != nil {
		return w
	}
	return NewRewriter(p.max)
}

// Put gives a Rewriter back.
func (p *Rewriters) Put(w *Rewriter) { p.all <- w }
