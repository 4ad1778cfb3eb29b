import NIOCore

/// The time that a connection has: for a request, and without one.
extension ConnectionHandler {
    func armRequestDeadline(_ context: ChannelHandlerContext) {
        guard requestDeadline == nil else { return }
        requestDeadline = context.eventLoop.assumeIsolated().scheduleTask(in: limits.request) { [self] in
            requestDeadline = nil
            switch state {
            case .idle, .receiving:
                refuse(
                    .timeout,
                    "The request was not complete in time; send head and body within \(limits.request.description).",
                    context)
            case .discarding: close(context)
            case .responding, .streaming, .writing, .lingering, .closed: break
            }
        }
    }

    func disarmRequestDeadline() {
        requestDeadline?.cancel()
        requestDeadline = nil
    }

    /// One timer that looks at the clock when it fires, rather than one more for each request.
    func armIdleTimer(_ context: ChannelHandlerContext, in delay: TimeAmount) {
        idleTimer = context.eventLoop.assumeIsolated().scheduleTask(in: delay) { self.idleTimerFired(context) }
    }

    func idleTimerFired(_ context: ChannelHandlerContext) {
        let since: NIODeadline?
        switch state {
        case .closed: return
        // A peer that does not read its answer is idle too.
        case .idle where requestDeadline == nil, .writing: since = idleSince
        case .streaming(let stream): since = stream.owedSince
        default: since = nil
        }
        let now = NIODeadline.now()
        guard let since else { return armIdleTimer(context, in: limits.idle) }
        let end = since + limits.idle
        if end <= now { close(context) } else { armIdleTimer(context, in: end - now) }
    }

    /// A peer that connected just before the end does not know of it, and its request is on its way: it is answered if it comes
    /// soon, instead of finding the connection closed.
    func awaitFirstRequest(_ context: ChannelHandlerContext) {
        context.eventLoop.assumeIsolated().scheduleTask(in: limits.firstRequestWhileDraining) {
            if self.isBetweenRequests { self.close(context) }
        }
    }
}
