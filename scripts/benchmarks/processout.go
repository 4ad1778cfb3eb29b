// Decrypts payment tokens with github.com/processout/applepay for scripts/bench, which builds it inside that package.
//
//	peer-processout MERCHANT-IDENTIFIER CERTIFICATE KEY ROOT TOKENS GOROUTINES SECONDS
//
// TOKENS has a payment token on each line. They are decrypted repeatedly, and parsed each time. Prints one line of JSON:
// successful decryptions a second, the 50th, 99th and 99.9th percentile of their times and the longest, the processor time of one
// (all in microseconds), the largest resident memory in MiB, and the share that failed.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/processout/applepay"
)

func fail(what error) {
	if what != nil {
		fmt.Fprintln(os.Stderr, what)
		os.Exit(1)
	}
}

func usage() (seconds float64, resident float64) {
	var used syscall.Rusage
	fail(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9, float64(used.Maxrss) / 1024
}

func main() {
	if len(os.Args) != 8 {
		os.Exit(64)
	}
	applepay.AppleRootCertificatePath = os.Args[4]
	applepay.TransactionTimeWindow = 24 * time.Hour
	merchant, err := applepay.New(os.Args[1], applepay.ProcessingCertificateLocation(os.Args[2], os.Args[3]))
	fail(err)
	file, err := os.ReadFile(os.Args[5])
	fail(err)
	lines := bytes.Split(bytes.TrimSpace(file), []byte("\n"))
	threads, err := strconv.Atoi(os.Args[6])
	fail(err)
	seconds, err := strconv.ParseFloat(os.Args[7], 64)
	fail(err)

	spent, _ := usage()
	began := time.Now()
	end := began.Add(time.Duration(seconds * 1e9))
	times, failed := make([][]float64, threads), make([]int, threads)
	var running sync.WaitGroup
	for thread := 0; thread < threads; thread++ {
		running.Add(1)
		go func(thread int) {
			defer running.Done()
			for number := thread; ; number += threads {
				start := time.Now()
				if !start.Before(end) {
					return
				}
				token := &applepay.PKPaymentToken{}
				if json.Unmarshal(lines[number%len(lines)], token) != nil {
					failed[thread]++
				} else if _, err := merchant.DecryptToken(token); err != nil {
					failed[thread]++
				} else {
					times[thread] = append(times[thread], float64(time.Since(start).Nanoseconds())/1000)
				}
			}
		}(thread)
	}
	running.Wait()
	took := time.Since(began).Seconds()
	used, resident := usage()

	var all []float64
	wrong := 0
	for thread := range times {
		all = append(all, times[thread]...)
		wrong += failed[thread]
	}
	if len(all) == 0 {
		fail(fmt.Errorf("none of %d tokens was decrypted", wrong))
	}
	sort.Float64s(all)
	at := func(share float64) float64 { return all[int(share*float64(len(all)-1))] }
	fail(json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"rate": float64(len(all)) / took, "p50": at(0.5), "p99": at(0.99), "p999": at(0.999), "max": at(1),
		"daemon": (used - spent) / float64(len(all)+wrong) * 1e6, "cores": (used - spent) / took,
		"memory_daemon": resident, "failed": float64(wrong) / float64(len(all)+wrong),
	}))
}
