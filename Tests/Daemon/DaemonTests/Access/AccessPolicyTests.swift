import AccessControl
import Ledger
import PaymentToken
import Refusals
import Testing

@testable import ConfigurationFile
@testable import Daemon
@testable import DaemonConfiguration
@testable import HostSystem

@Suite("Access rules")
struct AccessPolicyTests {
    private let alice = Account(name: "alice", id: 1_001)
    private let payments = Account(name: "payments", id: 500)

    private func policy(_ rules: AccessRule...) -> AccessPolicy {
        AccessPolicy(rules: rules, overflow: .init(uid: 65_534, gid: 65_534))
    }

    @Test("lets the first matching rule decide alone")
    func firstMatchDecides() {
        let policy = policy(
            AccessRule(name: "one", user: alice, roles: [.decrypt]),
            AccessRule(name: "two", group: payments, roles: [.admin]))
        let peer = PeerCredentials(uid: 1_001, gid: 500)
        #expect(policy.caller(for: peer)?.name == "one")
        #expect(policy.caller(for: peer)?.roles == [.decrypt])
        #expect(policy.caller(for: PeerCredentials(uid: 7, gid: 500))?.name == "two")
    }

    @Test("counts accounts together that one rule admits by group, and accounts together that no rule admits")
    func unnamedAccounts() {
        let policy = policy(
            AccessRule(name: "one", user: alice, roles: [.decrypt]),
            AccessRule(name: "two", group: payments, roles: [.decrypt]),
            AccessRule(user: Account(name: "bob", id: 1_002), group: payments, roles: [.admin]))
        #expect(policy.unnamedAccounts(of: PeerCredentials(uid: 1_001, gid: 500)) == nil)
        #expect(policy.unnamedAccounts(of: PeerCredentials(uid: 100_000, gid: 100_000, groups: [500])) == .group(500))
        #expect(policy.unnamedAccounts(of: PeerCredentials(uid: 100_000, gid: 100_000)) == .unmatched)
    }

    @Test("refuses a peer that no rule matches")
    func noMatch() {
        let policy = policy(AccessRule(user: alice, roles: [.decrypt]))
        #expect(policy.caller(for: PeerCredentials(uid: 1_002, gid: 1_001, groups: [1_001])) == nil)
        #expect(policy.caller(for: PeerCredentials(uid: 0, gid: 0)) == nil)
        #expect(AccessPolicy(rules: []).caller(for: PeerCredentials(uid: 0, gid: 0)) == nil)
    }

    @Test("requires both user and group of a rule that names both")
    func bothMustMatch() {
        let policy = policy(AccessRule(user: alice, group: payments, roles: [.decrypt]))
        #expect(policy.caller(for: PeerCredentials(uid: 1_001, gid: 500)) != nil)
        #expect(policy.caller(for: PeerCredentials(uid: 1_001, gid: 1_001)) == nil)
        #expect(policy.caller(for: PeerCredentials(uid: 1_002, gid: 500)) == nil)
    }

    @Test("matches a group as the primary or a supplementary group")
    func supplementaryGroups() {
        let policy = policy(AccessRule(group: payments, roles: [.decrypt]))
        #expect(policy.caller(for: PeerCredentials(uid: 7, gid: 500)) != nil)
        #expect(policy.caller(for: PeerCredentials(uid: 7, gid: 7, groups: [4, 500, 6])) != nil)
        #expect(policy.caller(for: PeerCredentials(uid: 500, gid: 7, groups: [4, 6])) == nil)
    }

    @Test("never matches the overflow identifiers, which represent every unmapped account")
    func overflowMatchesNothing() {
        let policy = policy(
            AccessRule(user: .init(name: "nobody", id: 65_534), roles: [.admin]),
            AccessRule(group: .init(name: "nogroup", id: 65_534), roles: [.admin]))
        #expect(policy.caller(for: PeerCredentials(uid: 65_534, gid: 65_534, groups: [65_534])) == nil)
    }

    @Test("matches no peer with a rule that names neither user nor group")
    func emptyRule() {
        #expect(policy(AccessRule(roles: [.admin])).caller(for: PeerCredentials(uid: 0, gid: 0)) == nil)
    }

    @Test("serves only the daemon's own user and root, with all roles, when there are no rules")
    func ownUserAndRoot() {
        let policy = AccessPolicy.ownUserAndRoot(ownUID: 990, overflow: .init(uid: 65_534, gid: 65_534))
        for uid in [UInt32(0), 990] {
            #expect(policy.caller(for: PeerCredentials(uid: uid, gid: 1))?.roles == Set(Role.allCases))
        }
        #expect(policy.caller(for: PeerCredentials(uid: 991, gid: 0)) == nil)
    }

    @Test("makes audit and admin imply monitor, and lets no other role imply one")
    func implications() {
        let expected: [(Set<Role>, Set<Role>)] = [
            ([.decrypt], [.decrypt]), ([.monitor], [.monitor]), ([.audit], [.audit, .monitor]),
            ([.admin], [.admin, .monitor]), ([.decrypt, .audit], [.decrypt, .audit, .monitor]),
        ]
        for (given, effective) in expected {
            let policy = policy(AccessRule(user: alice, roles: given))
            #expect(policy.caller(for: PeerCredentials(uid: 1_001, gid: 1))?.roles == effective)
        }
    }

    @Test("names the caller by its rule, otherwise by its uid")
    func callerNames() {
        let peer = PeerCredentials(uid: 1_001, gid: 1)
        #expect(policy(AccessRule(user: alice, roles: [.decrypt])).caller(for: peer)?.name == "1001")
        #expect(policy(AccessRule(name: "shop", user: alice, roles: [.decrypt])).caller(for: peer)?.name == "shop")
    }

    @Test("allows all merchants, the listed ones, or none")
    func merchantsOfRule() throws {
        let peer = PeerCredentials(uid: 1_001, gid: 1)
        let all = try #require(policy(AccessRule(user: alice, roles: [.decrypt])).caller(for: peer))
        #expect(all.allows(merchant: "merchant.any"))
        let some = try #require(
            policy(
                AccessRule(
                    user: alice, roles: [.decrypt],
                    merchants: [MerchantPattern("merchant.a.*"), MerchantPattern("merchant.b")])
            ).caller(for: peer))
        #expect(some.allows(merchant: "merchant.a.x") && some.allows(merchant: "merchant.b"))
        #expect(!some.allows(merchant: "merchant.b.x") && !some.allows(merchant: "merchant.c"))
        let none = try #require(
            policy(AccessRule(user: alice, roles: [.decrypt], merchants: [])).caller(for: peer))
        #expect(!none.allows(merchant: "merchant.a.x"))
    }

    @Test(
        "matches any characters with a star in a pattern",
        arguments: [
            ("merchant.com.example", "merchant.com.example", true),
            ("merchant.com.example", "merchant.com.examples", false),
            ("merchant.*", "merchant.", true), ("merchant.*", "merchant", false), ("*", "", true), ("*", "x", true),
            ("", "", true), ("", "x", false), ("*.shop", "a.b.shop", true), ("*.shop", "a.shop.b", false),
            ("a*b*c", "a--b--b--c", true), ("a*b*c", "acb", false), ("**a", "bca", true), ("a.c", "abc", false),
            ("A", "a", false), ("merchant.[a-z]", "merchant.b", false),
        ])
    func globs(pattern: String, name: String, matches: Bool) {
        #expect(MerchantPattern(pattern).matches(name) == matches)
    }

    @Test("matches a pattern of many stars without exponential backtracking")
    func globsInBoundedTime() {
        let pattern = MerchantPattern(String(repeating: "*a", count: 100) + "b")
        #expect(!pattern.matches(String(repeating: "a", count: 4_000)))
    }

    @Test("treats a uid without an account as a person only if a rule names it, because subordinate uids keep groups")
    func subordinateUIDs() async throws {
        // The uid 4,294,000,000 belongs to no account.
        let outsider = PeerCredentials(uid: 4_294_000_000, gid: 7, groups: [500])
        let group = Account(name: "staff", id: 500)
        let byGroup = try #require(policy(AccessRule(group: group, roles: [.admin])).caller(for: outsider))
        let refusal = await #expect(throws: Refusal.self) { try await byGroup.person() }
        #expect(refusal?.code == .forbidden)
        let named = AccessRule(user: .init(name: "4294000000", id: 4_294_000_000), group: group, roles: [.admin])
        let person = try await policy(named).caller(for: outsider)?.person()
        #expect(person == PersonIdentities(uid: 4_294_000_000))
        let root = PeerCredentials(uid: 0, gid: 500)
        let rootPerson = try await policy(AccessRule(group: group, roles: [.admin])).caller(for: root)?.person()
        #expect(rootPerson == PersonIdentities(uid: 0, account: "root"))
    }
}
