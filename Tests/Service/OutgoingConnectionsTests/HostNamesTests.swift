import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import OutgoingConnections

/// Lookups of host names with a resolver that can hang for some names.
@Suite struct HostNamesTests {
    /// A resolver whose lookups of names with the prefix `slow` block while `hang` is active.
    private struct Names {
        let hang = Hang()
        let asked = Shared<[String]>([])
        /// True to make the next lookups fail.
        let fails = Shared(false)
        let names: HostNames

        init(_ limits: HostNames.Limits = .init()) {
            let (hang, asked, fails) = (hang, asked, fails)
            names = HostNames(limits) { name in
                asked.change { $0.append(name) }
                if name.hasPrefix("slow") { hang.pass() }
                if fails.current { throw HostNames.Failure.notFound(-3) }
                return [
                    try SocketAddress(ipAddress: "192.0.2.\(asked.current.count)", port: 0),
                    try SocketAddress(ipAddress: "2001:db8::1", port: 0),
                ]
            }
        }

        func ask(_ name: String) -> (addresses: EventLoopFuture<[SocketAddress]>, resolver: any Resolver & Sendable) {
            let resolver = names.resolver(on: MultiThreadedEventLoopGroup.singleton.next())
            return (resolver.initiateAQuery(host: name, port: 443), resolver)
        }

        func address(_ name: String) async throws -> String? { try await ask(name).addresses.get().first?.ipAddress }
    }

    private static func limits(
        fresh: Duration = .seconds(30), stale: Duration = .seconds(600), patience: Duration = .milliseconds(1),
        lookUps: Int = 64
    ) -> HostNames.Limits {
        var limits = HostNames.Limits()
        (limits.fresh, limits.stale, limits.patience, limits.lookUps) = (fresh, stale, patience, lookUps)
        return limits
    }

    @Test("looks up other names on the same event loop while one lookup hangs")
    func otherNames() async throws {
        let names = Names()
        names.hang.begin()
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let slow = names.names.resolver(on: loop).initiateAQuery(host: "slow.example", port: 443)
        try await names.hang.waitUntilBlocking()
        for number in 1...20 {
            _ = try await names.names.resolver(on: loop).initiateAQuery(host: "n\(number).example", port: 443).get()
        }
        names.hang.end()
        _ = try await slow.get()
    }

    @Test("shares one lookup among simultaneous requests for a name, and caches the result")
    func shared() async throws {
        let names = Names()
        names.hang.begin()
        let questions = (0..<50).map { _ in names.ask("slow.example").addresses }
        try await names.hang.waitUntilBlocking()
        names.hang.end()
        for question in questions { #expect(try await question.get().map(\.ipAddress) == ["192.0.2.1"]) }
        #expect(try await names.address("SLOW.example") == "192.0.2.1")
        #expect(names.asked.current == ["slow.example"])
    }

    @Test("returns IPv4 and IPv6 addresses separately, with the requested port")
    func families() async throws {
        let resolver = Names().names.resolver(on: MultiThreadedEventLoopGroup.singleton.next())
        #expect(try await resolver.initiateAQuery(host: "a.example", port: 443).get().map(\.port) == [443])
        #expect(
            try await resolver.initiateAAAAQuery(host: "a.example", port: 8443).get()
                == [SocketAddress(ipAddress: "2001:db8::1", port: 8443)])
    }

    @Test("uses cached addresses while a new lookup hangs or fails, until they are too old")
    func stale() async throws {
        let names = Names(Self.limits(fresh: .zero))
        #expect(try await names.address("slow.example") == "192.0.2.1")
        names.hang.begin()
        #expect(try await names.address("slow.example") == "192.0.2.1")
        #expect(try await names.address("slow.example") == "192.0.2.1")
        // The lookup runs on another thread, and may begin after its caller has been answered.
        try await wait(for: "the second lookup") { names.asked.current.count == 2 }
        names.fails.change { $0 = true }
        try await names.hang.waitUntilBlocking()
        names.hang.end()
        #expect(try await names.address("slow.example") == "192.0.2.1")

        let forgetful = Names(Self.limits(fresh: .zero, stale: .zero))
        _ = try await forgetful.address("a.example")
        forgetful.fails.change { $0 = true }
        await #expect(throws: HostNames.Failure.notFound(-3)) { try await forgetful.address("a.example") }
    }

    @Test("returns new addresses if a repeated lookup ends in time")
    func renewed() async throws {
        let names = Names(Self.limits(fresh: .zero, patience: .seconds(600)))
        #expect(try await names.address("a.example") == "192.0.2.1")
        #expect(try await names.address("a.example") == "192.0.2.2")
    }

    @Test("limits simultaneous lookups, and ends the wait of a cancelled connection")
    func bounded() async throws {
        let names = Names(Self.limits(lookUps: 2))
        names.hang.begin()
        let (first, resolver) = names.ask("slow1.example")
        let second = names.ask("slow2.example").addresses
        try await wait(for: "both to hang") { names.hang.held == 2 }
        await #expect(throws: HostNames.Failure.tooManyLookUps) { try await names.address("slow3.example") }
        resolver.cancelQueries()
        await #expect(throws: HostNames.Failure.cancelled) { try await first.get() }
        names.hang.end()
        _ = try await second.get()
        #expect(names.asked.current.sorted() == ["slow1.example", "slow2.example"])
    }

    @Test("returns literal addresses without a lookup, and loopback addresses for localhost")
    func literals() async throws {
        let names = Names()
        #expect(try await names.address("127.0.0.1") == "127.0.0.1")
        let resolver = names.names.resolver(on: MultiThreadedEventLoopGroup.singleton.next())
        #expect(try await resolver.initiateAAAAQuery(host: "::1", port: 1).get().map(\.ipAddress) == ["::1"])
        #expect(names.asked.current.isEmpty)
        #expect(try HostNames.addresses(of: "localhost").contains { ["127.0.0.1", "::1"].contains($0.ipAddress) })
        #expect(throws: HostNames.Failure.self) { try HostNames.addresses(of: "no name.invalid") }
    }
}
