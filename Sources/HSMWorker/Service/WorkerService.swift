import Foundation
import WorkerProtocol

/// Serves one token to the daemon at the other end of a socket. Called by paytokend-hsm and by nobody else.
///
/// This target is everything that the worker process does: it holds the vendor's library, the PIN, the sessions and the
/// key handles, and reads only frames, which it treats as hostile. A merchant's private key never leaves the token; a
/// transaction's symmetric key leaves it in tier C only, and never this process.
///
/// The calling thread reads frames; each session has a thread of its own; answers are written in the order in which they
/// are ready. To follow a decryption, read on at ``ServedToken`` (queue and threads), ``TokenSession`` (one session and the
/// requests that it answers), `KeyOperations/DecryptionOperation.swift` (when a call is repeated) and `Tiers` (what the
/// token is asked). ``OpenToken`` says how a token is opened, `Token/SessionRepair.swift` what is done when it ends
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
        var decoder = FrameDecoder(maximumLength: FieldBound.requestFrame)
        var token: ServedToken?
        do throws(FrameError) {
            while let piece = next(stream, token) {
                decoder.append(piece)
                while let frame = try decoder.next() {
                    let request = try WorkerRequest(frame)
                    if let token {
                        guard case .open = request else {
                            token.submit(request, identifier: frame.identifier)
                            continue
                        }
                        return violation("The token is open already.", frame, stream)
                    }
                    guard case .open(let opening) = request else {
                        return violation("The first request must open the token.", frame, stream)
                    }
                    do throws(WorkerFailure) {
                        let opened = try ServedToken(opening)
                        opened.startThreads { stream.send($1, for: $0) }
                        stream.send(.opened(opened.description), for: frame.identifier)
                        token = opened
                    } catch {
                        stream.send(.failed(error), for: frame.identifier)
                        return Status.unavailable
                    }
                }
            }
        } catch {
            return Status.protocolViolation
        }
        return decoder.isAtBoundary ? 0 : Status.protocolViolation
    }

    private static func next(_ stream: FrameStream, _ token: ServedToken?) -> [UInt8]? {
        token?.awaitDemand()
        return stream.read()
    }

    private static func violation(_ message: String, _ frame: Frame, _ stream: FrameStream) -> Int32 {
        stream.send(.failed(WorkerFailure(.protocolViolation, message)), for: frame.identifier)
        return Status.protocolViolation
    }
}
