import UnixSignals

/// What a serving daemon waits for: signals, and the verdict on its ledger.
struct DaemonEvents: AsyncSequence, Sendable {
    enum Element: Sendable {
        case signal(UnixSignal)
        case verdict(LedgerGate.Position)
    }

    private let merged: AsyncStream<Element>

    init(signals: UnixSignalsSequence, verdicts: AsyncStream<LedgerGate.Position>) {
        let (merged, continuation) = AsyncStream.makeStream(of: Element.self)
        let signals = Task { for await signal in signals { continuation.yield(.signal(signal)) } }
        let verdicts = Task { for await verdict in verdicts { continuation.yield(.verdict(verdict)) } }
        continuation.onTermination = { _ in
            signals.cancel()
            verdicts.cancel()
        }
        self.merged = merged
    }

    func makeAsyncIterator() -> AsyncStream<Element>.Iterator { merged.makeAsyncIterator() }
}
