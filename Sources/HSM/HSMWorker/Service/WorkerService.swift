import WorkerProtocol

/// Serves one token to the daemon at the other end of a socket. Called by paytokend-hsm and by nobody else.
///
/// This target is everything that the worker process does: it holds the vendor's library, the PIN, the sessions and the
/// key handles, and reads only frames, which it treats as hostile. A merchant's private key never leaves the token; a
/// transaction's symmetric key leaves it in tier C only, and never this process.
///
/// Each session has a thread of its own, which reads a request when it has nothing else to do; the calling thread waits for
/// the end. Answers are written in the order in which they are ready. To follow a decryption, read on at ``ServedToken``
/// (threads), ``RequestQueue`` (who reads), ``TokenSession`` (one session and the requests that it answers), `KeyOperations/DecryptionOperation.swift` (when a call is repeated) and `Tiers` (what the
/// token is asked); to follow a TLS handshake's signature, at `Signatures/TLSSigningOperation.swift`. `KeyOperations/KeyRights.swift`
/// says what keeps a key to its one use. ``OpenToken`` says how a token is opened, `Token/SessionRepair.swift` what is done when it ends
/// sessions or the login.
public enum WorkerService {
    /// Exit statuses besides 0, which is the end of the input.
    private enum Status {
        static let unavailable: Int32 = 69
        static let protocolViolation: Int32 = 70
    }

    /// Serves until the input ends. Blocks.
    /// - Parameter descriptor: A connected stream socket.
    /// - Returns: The status to exit with, at once: session threads may still be in the library, but none of them in a
    ///   login, and none logs in any more.
    public static func serve(descriptor: Int32) -> Int32 {
        let status = answerRequests(descriptor)
        TokenLogin.finish(within: 10)
        return status
    }

    private static func answerRequests(_ descriptor: Int32) -> Int32 {
        let stream = FrameStream(descriptor: descriptor)
        let input = RequestInput(descriptor, stream: stream)
        if let first = input.first() {
            if case .open(let opening) = first.request {
                do throws(WorkerFailure) {
                    let hsmToken = try ServedToken(opening)
                    // Before any session can answer another request.
                    stream.send(.opened(hsmToken.description), for: first.identifier)
                    hsmToken.startThreads(reading: input.batch) { stream.send($1, for: $0) }
                    input.awaitEnd()
                } catch {
                    stream.send(.failed(error), for: first.identifier)
                    return Status.unavailable
                }
            } else {
                input.reject("The first request must open the token.", first.identifier)
            }
        }
        return input.wasWellFormed() ? 0 : Status.protocolViolation
    }
}
