import PKCS11
import TestSupport
import Testing
import WorkerProtocol

@testable import HSMWorker

/// What a token may do to sessions and logins while the worker serves, done here by hand.
@Suite struct SessionRepairTests {
    @Test("a session that the token has closed is opened again within the call")
    func closedSession() throws {
        let harness = try OpenTokenHarness()
        let payment = try harness.payment()
        var session = Session(closedIn: harness.softHSM.slot)
        #expect(try harness.decrypt(payment, in: &session).get() == payment.plaintext)
        let isOpen = session.isOpen
        #expect(isOpen)
    }

    @Test("a login that the token has ended is renewed within the call, once for all sessions")
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

    @Test("after a logout other requests find the user logged in, too")
    func restore() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        try session.logOut()
        var deadline = CallDeadline(callTimeout: 10_000)
        try harness.hsmToken.restore(&session, &deadline)
        #expect(try session.loggedInUser() == .user)
        #expect(harness.hsmToken.keys.all.count == 1)
    }

    @Test("a key that somebody replaced in the token is found again within the call")
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

    @Test("a key that is gone costs the worker, which may have lost its token")
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
