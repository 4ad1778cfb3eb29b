package import OutgoingConnections

/// A persistent connection to the daemon, for one request after another. ``UnixSocketClient`` opens a connection for each
/// request instead.
public final class UnixSocketConnection: Sendable {
    private let client: UnixSocketClient
    package let http: HTTPConnection

    private init(_ client: UnixSocketClient, _ http: HTTPConnection) {
        self.client = client
        self.http = http
    }

    /// Connects within ``UnixSocketClient/deadline``.
    public static func open(_ client: UnixSocketClient) async throws(UnixSocketClientError) -> UnixSocketConnection {
        try await client.connecting { destination, deadline in
            UnixSocketConnection(client, try await destination.connect(before: deadline))
        }
    }

    /// Sends one request. The previous request must have been answered.
    ///
    /// - Parameter time: the maximum time for sending the request and receiving the answer. After that time the connection
    ///   is closed.
    /// - Throws: ``UnixSocketClientError/closed(path:)`` if the connection had delivered earlier answers, and the
    ///   daemon closed it before any byte of this answer arrived. After any error the connection is closed.
    public func send(_ request: ClientRequest, within time: Duration) async throws(UnixSocketClientError)
        -> ClientAnswer
    {
        do {
            return ClientAnswer(
                try await client.requiringFraming { () throws(HTTPFault) in
                    try await http.send(request.httpRequest(accept: "application/json"), before: .now + time)
                })
        } catch {
            throw client.failure(of: error, after: time, hasServed: http.answers > 0)
        }
    }

    /// True until this process has noticed that the connection ended.
    public var isOpen: Bool { http.isOpen }

    public func close() { http.close() }
}
