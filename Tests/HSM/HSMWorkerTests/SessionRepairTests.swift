import PKCS11
import TestSupport
import Testing
import WorkerProtocol

@testable import HSMWorker

/// Sessions and logins ended while the worker serves, by the tests instead of an HSM token.
@Suite struct SessionRepairTests {
    @Test("reopens a session that the HSM token has closed within the call")
    func closedSession() throws {
        let harness = try OpenTokenHarness()
        let payment = try harness.payment()
        var session = Session(closedIn: harness.softHSM.slot)
        #expect(try harness.decrypt(payment, in: &session).get() == payment.plaintext)
        let isOpen = session.isOpen
        #expect(isOpen)
    }

    @Test("renews a login that the HSM token has ended within the call, once for all sessions")
    func loggedOut() throws {
        let harness = try OpenTokenHarness()
        var first = try harness.softHSM.openSession()
        var second = try harness.softHSM.openSession()
        for _ in 0..<2 {
            try first.logOut()
            for _ in 0..<3 {
                let payment = try harness.payment()
                #expect(try harness.decrypt(payment, in: &first).get() == payment.plaintext)
                #expect(try harness.decrypt(payment, in: &second).get() == payment.plaintext)
            }
            #expect(try first.loggedInUser() == .user)
        }
    }

    @Test("finds the user logged in for other requests after a logout too")
    func restore() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        try session.logOut()
        var deadline = CallDeadline(callTimeout: 10_000)
        try harness.hsmToken.restore(&session, &deadline)
        #expect(try session.loggedInUser() == .user)
        #expect(harness.hsmToken.keys.all.count == 1)
    }

    @Test("finds a key that was replaced in the HSM token again within the call")
    func replacedKey() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        for object in try session.findObjects(matching: [.objectClass(.privateKey)]) {
            try session.destroyObject(object)
        }
        for object in try session.findObjects(matching: [.objectClass(.publicKey)]) {
            try session.destroyObject(object)
        }
        try OpenTokenHarness.store(SharedForge.ecMerchant, in: &session)
        let payment = try harness.payment()
        #expect(try harness.decrypt(payment, in: &session).get() == payment.plaintext)
    }

    @Test("ends the worker when a key is gone, because the worker may have lost its HSM token")
    func vanishedKey() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        for object in try session.findObjects(matching: []) { try session.destroyObject(object) }
        guard case .failure(let failure) = harness.decrypt(try harness.payment(), in: &session) else {
            Issue.record("opened without a key")
            return
        }
        #expect(failure.kind == .hsmTokenUnavailable)
    }
}
