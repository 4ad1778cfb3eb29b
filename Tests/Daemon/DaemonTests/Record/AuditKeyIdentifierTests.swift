import Testing

@testable import UsageRecording

@Suite("The identifiers of audit keys")
struct AuditKeyIdentifierTests {
    @Test("has 16 bytes, differs each time, and distinguishes its node from every other")
    func identifiesNode() {
        let one = AuditKeyIdentifier.newIdentifier(for: "node-1")
        #expect(one.count == 16 && one != AuditKeyIdentifier.newIdentifier(for: "node-1"))
        #expect(AuditKeyIdentifier.mayBelong(one, of: "node-1"))
        for other in ["node-2", "node-10", "", "NODE-1"] { #expect(!AuditKeyIdentifier.mayBelong(one, of: other)) }
    }

    @Test("takes 16 random bytes of an earlier version as possibly any node's")
    func earlierVersion() {
        let identifier = [UInt8](repeating: 0xa5, count: 16)
        for node in ["node-1", "node-2"] { #expect(AuditKeyIdentifier.mayBelong(identifier, of: node)) }
    }
}
