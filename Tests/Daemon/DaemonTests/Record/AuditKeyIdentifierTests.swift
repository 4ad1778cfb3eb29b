import Testing

@testable import Daemon

@Suite("The identifiers of audit keys")
struct AuditKeyIdentifierTests {
    @Test("an identifier has 16 bytes, is another each time, and tells its node from every other")
    func carriesNode() {
        let one = AuditKeyIdentifier.random(of: "node-1")
        #expect(one.count == 16 && one != AuditKeyIdentifier.random(of: "node-1"))
        #expect(AuditKeyIdentifier.mayBe(one, of: "node-1"))
        for other in ["node-2", "node-10", "", "NODE-1"] { #expect(!AuditKeyIdentifier.mayBe(one, of: other)) }
    }

    @Test("one of an earlier version, 16 random bytes, may be any node's")
    func earlier() {
        let identifier = [UInt8](repeating: 0xa5, count: 16)
        for node in ["node-1", "node-2"] { #expect(AuditKeyIdentifier.mayBe(identifier, of: node)) }
    }
}
