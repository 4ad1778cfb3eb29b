import HTTPListener
import Testing

@testable import Gateway

@Suite("Handshakes per second")
struct HandshakeRateTests {
    private let start = ContinuousClock.now

    private func taken(
        _ rates: HandshakeRates, _ sources: [ConnectionSource], _ count: Int, at offset: Duration = .zero
    ) -> Int {
        (0..<count).count { _ in rates.take(sources, now: start + offset) }
    }

    private func address(_ name: String) -> [ConnectionSource] { [.network(name)] }

    @Test("limits one address to its burst and then its rate, and takes nothing from another")
    func apart() {
        let rates = HandshakeRates(.init(perSecond: 10, burst: 20))
        #expect(taken(rates, address("a"), 100) == 20)
        #expect(taken(rates, address("b"), 100) == 20)
        #expect(taken(rates, address("a"), 100, at: .seconds(1)) == 10)
    }

    @Test("does not count a handshake that identified a client")
    func known() {
        let rates = HandshakeRates(.init(perSecond: 1, burst: 2))
        for _ in 0..<100 {
            #expect(taken(rates, address("a"), 1) == 1)
            rates.giveBack(address("a"))
        }
        #expect(taken(rates, address("a"), 100) == 2)
    }

    @Test("gives all 64-bit networks within one of 56 or 48 bits twice or four times as much together")
    func networks() {
        let rates = HandshakeRates(.init(perSecond: 10, burst: 20))
        let first = (0..<9).map { taken(rates, [.network("64 \($0)"), .network("56"), .network("48")], 100) }
        #expect(first == [20, 20, 0, 0, 0, 0, 0, 0, 0])
        let others = (0..<9).map {
            taken(rates, [.network("64 other \($0)"), .network("56 \($0)"), .network("48")], 100)
        }
        #expect(others == [20, 20, 0, 0, 0, 0, 0, 0, 0])
    }

    @Test("shares one bucket among sources beyond those with their own, until some have been silent")
    func bounded() {
        let rates = HandshakeRates(.init(perSecond: 10, burst: 20))
        for number in 0..<HandshakeRates.maximumSources { #expect(taken(rates, address("\(number)"), 1) == 1) }
        #expect((0..<9).map { taken(rates, address("other \($0)"), 10) } == [10, 10, 0, 0, 0, 0, 0, 0, 0])
        #expect(
            (0..<9).map { taken(rates, address("other \($0)"), 10, at: .seconds(2)) } == Array(repeating: 10, count: 9))
    }

    @Test("counts an IPv6 address for three networks, and any other address for itself")
    func sources() {
        func names(_ ip: String) -> [ConnectionSource] {
            (try? NetworkAddress.packed(ip).map { try NetworkPeer(.address($0)) })?.sources ?? []
        }
        #expect(
            names("2001:db8:1:ab23:4567::1")
                == [.network("20010db80001ab23"), .network("20010db80001ab"), .network("20010db80001")])
        #expect(names("192.0.2.1") == [.network("c0000201")])
        #expect(names("::ffff:192.0.2.1").count == 1)
    }
}
