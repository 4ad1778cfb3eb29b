import AccessControl
import Glibc
import NIOEmbedded
import Refusals
import TestSupport
import Testing

@testable import Daemon
@testable import HTTPListener

@Suite("Places of connections with an unknown client")
struct ConnectionPlacesTests {
    /// Connections under one set of limits, in the order of arrival.
    private struct Arrivals {
        let limits: ConnectionLimits
        let dismissed = Shared<[Int]>([])
        var channels: [EmbeddedChannel] = []

        init(_ maximum: ConnectionLimits.Maximum) { limits = ConnectionLimits(maximum) }

        @discardableResult
        mutating func arrive(
            _ source: ConnectionSource, within wider: [ConnectionBound] = []
        ) -> ConnectionLimits.Decision {
            let number = channels.count
            let channel = EmbeddedChannel(
                handler: DismissalHandler { [dismissed] in dismissed.change { $0.append(number) } })
            channels.append(channel)
            return limits.admit(channel, from: source, within: wider)
        }

        /// Adds one connection from an IPv6 address with these prefixes of 64, 56 and 48 bits. The /56 may have 8
        /// connections, and the /48 may have 16.
        mutating func arrive(_ prefixes: [String]) {
            arrive(
                .network(prefixes[0]),
                within: [.init(.network(prefixes[1]), most: 8), .init(.network(prefixes[2]), most: 16)])
        }

        func isServed(_ number: Int) -> Bool { limits.served.contains { $0 === channels[number] } }
    }

    @Test("closes the oldest connection of the same source, or of the largest source when all places are taken")
    func closesOldest() {
        var arrivals = Arrivals(.init(total: 4, perSource: 3, unidentified: 4))
        for _ in 0..<4 { #expect(arrivals.arrive(.network("a")) == .serve) }
        #expect(arrivals.dismissed.current == [0])
        for _ in 0..<2 { arrivals.arrive(.network("b")) }
        #expect(arrivals.dismissed.current == [0, 1], "all places are taken, and a has the most")
        // The two connections that were closed for newer ones end only now. Their end must not make room for further
        // connections, since their places are already taken.
        for channel in arrivals.channels[..<2] { arrivals.limits.release(channel, decision: .serve) }
        arrivals.arrive(.network("c"))
        #expect(arrivals.limits.served.count == 4 && arrivals.isServed(6))
    }

    @Test("keeps a connection from its own address despite any number of other connections and addresses")
    func floodFromOthers() {
        var arrivals = Arrivals(.init(total: 1_024, perSource: 64, unidentified: 256))
        for _ in 0..<64 { for address in 0..<16 { arrivals.arrive(.network("\(address)")) } }
        let client = arrivals.channels.count
        arrivals.arrive(.network("client"))
        for _ in 0..<64 { for address in 0..<16 { arrivals.arrive(.network("\(address)")) } }
        #expect(arrivals.isServed(client) && arrivals.limits.served.count == 256)
        #expect(arrivals.limits.recount(arrivals.channels[client], as: .client("shop"), atMost: 1))
        // The identified client no longer counts as unidentified, so one more unidentified client is served.
        arrivals.arrive(.network("0"))
        #expect(arrivals.limits.served.count == 257)
    }

    @Test("bounds networks of 64, 56 and 48 bits separately, and closes connections within each")
    func networks() {
        var arrivals = Arrivals(.init(total: 100, perSource: 4, unidentified: 100))
        for _ in 0..<5 { arrivals.arrive(["64 a", "56 a", "48 a"]) }
        #expect(arrivals.dismissed.current == [0], "four of one /64")
        for number in 0..<5 { arrivals.arrive(["64 b\(number)", "56 a", "48 a"]) }
        #expect(arrivals.dismissed.current == [0, 1], "eight of one /56; its largest /64 loses one")
        for number in 0..<9 { arrivals.arrive(["64 c\(number)", "56 c\(number)", "48 a"]) }
        #expect(arrivals.dismissed.current == [0, 1, 2], "sixteen of one /48; its largest /56 and /64 lose one")
        #expect(arrivals.limits.served.count == 16)
    }

    @Test("closes connections of one party's 64-bit networks before the single connection of another party")
    func manyNetworks() {
        var arrivals = Arrivals(.init(total: 12, perSource: 4, unidentified: 12))
        arrivals.arrive(["64 client", "56 client", "48 client"])
        for number in 0..<1_000 { arrivals.arrive(["64 \(number)", "56 \(number / 4)", "48 other"]) }
        #expect(arrivals.isServed(0) && arrivals.limits.served.count == 12)
    }

    @Test("counts a connection by its client once the client is known, and no longer by its source")
    func countedByClient() {
        let limits = ConnectionLimits(.init(total: 6, perSource: 3))
        let channels = (0..<3).map { _ in EmbeddedChannel() }
        for channel in channels { #expect(limits.admit(channel, from: .network("a")) == .serve) }
        #expect(limits.admit(EmbeddedChannel(), from: .network("a")) == .refuse)
        #expect(limits.recount(channels[0], as: .client("shop"), atMost: 1))
        #expect(limits.admit(EmbeddedChannel(), from: .network("a")) == .serve)
        #expect(limits.recount(channels[0], as: .client("shop"), atMost: 1), "it is the client's already")
        #expect(!limits.recount(channels[1], as: .client("shop"), atMost: 1))
        limits.release(channels[0], decision: .serve)
        #expect(limits.recount(channels[1], as: .client("shop"), atMost: 1))
        #expect(!limits.recount(EmbeddedChannel(), as: .client("shop"), atMost: 9), "it is not served")
    }

    @Test("leaves only the remaining places to unknown clients, and never closes a known client's connection")
    func knownClientsKept() {
        var arrivals = Arrivals(.init(total: 4, perSource: 4, unidentified: 1))
        for number in 0..<3 {
            arrivals.arrive(.network("a"))
            #expect(arrivals.limits.recount(arrivals.channels[number], as: .client("shop"), atMost: 9))
        }
        for _ in 0..<9 { arrivals.arrive(.network("a")) }
        #expect(!arrivals.limits.recount(arrivals.channels[11], as: .client("other"), atMost: 9))
        #expect((0..<3).allSatisfy { arrivals.isServed($0) } && arrivals.limits.served.count == 4)
    }

    @Test("limits all accounts together that no rule names, and keeps the remaining places for named accounts")
    func unnamedAccounts() {
        let limits = ConnectionLimits(.init(total: 512, perSource: 128), ownUID: 100)
        let shares = UnnamedShares(total: 512)
        func arrive(_ uid: UInt32, _ accounts: UnnamedAccounts?) -> Int {
            (0..<128).count { _ in
                limits.admit(EmbeddedChannel(), from: .user(uid), within: shares.bounds(for: accounts)) == .serve
            }
        }
        // Subordinate uids in a group connect first, then uids that no rule admits, and then a uid in another group.
        #expect((0..<5).map { arrive(100_000 + $0, .group(7)) } == [128, 128, 0, 0, 0])
        #expect((0..<2).map { arrive(200_000 + $0, .unmatched) } == [128, 0])
        #expect(arrive(300_000, .group(8)) == 0, "unnamed accounts have only three quarters of the places")
        #expect(arrive(1_000, nil) == 128)
    }

    @Test("shares one event-loop turn among the uids of a group rule, and gives a named account its own")
    func sharedTurn() throws {
        var ends: [CInt] = [-1, -1]
        #expect(unsafe socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends) == 0)
        defer { for end in ends { close(end) } }
        func share(_ accounts: UnnamedAccounts?) throws -> TurnShare {
            let connections = PeerConnections(
                socket: .payments, handler: Matched(accounts: accounts), instruments: Instruments(),
                shares: UnnamedShares(total: 8))
            return try connections.accept(ends[0], from: .user(geteuid())).share()
        }
        let uid = "\(geteuid())"
        #expect(try share(nil) == TurnShare(of: .user(geteuid())))
        #expect(try share(.group(7)) == TurnShare(of: .accounts("group 7"), named: uid))
        #expect(try share(.unmatched) == TurnShare(of: .accounts("unmatched"), named: uid))
    }

    private struct Matched: PeerRequestHandler {
        let accounts: UnnamedAccounts?

        func admit(_ head: RequestHead, from peer: DaemonPeer) -> Admission {
            .refuse(HTTPAnswer(status: 404))
        }

        func unnamedAccounts(of peer: PeerCredentials) -> UnnamedAccounts? { accounts }
        func answer(to condition: HTTPCondition, from peer: DaemonPeer) -> HTTPAnswer {
            HTTPAnswer(status: 503)
        }
    }
}
