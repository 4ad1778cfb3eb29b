import PKCS11
import TestSupport
import Testing

@Suite struct SessionTests {
    @Test("A session can be put in place of one that is stuck in an operation")
    func reopen() throws {
        let token = try SoftHSM.shared().freshToken()
        var session = try token.openSession()
        #expect(try session.findObjects(matching: []).isEmpty)
        try session.reopen(in: token.slot, readWrite: true)
        #expect(try session.findObjects(matching: []).isEmpty)
        // A read-only session, too, still under the token's login.
        try session.reopen(in: token.slot)
        #expect(try session.loggedInUser() == .user)
    }

    @Test("A session that is yet to be opened answers as a closed one does, and harms none when it ends")
    func closed() throws {
        let token = try SoftHSM.shared().freshToken()
        var session = Session(closedIn: token.slot)
        let isOpen = session.isOpen
        #expect(!isOpen)
        do {
            _ = try session.loggedInUser()
            Issue.record("a session that is not open answered")
        } catch {
            #expect(error.returnValue == .sessionHandleInvalid)
        }
        try session.reopen(in: token.slot)
        #expect(try session.loggedInUser() == .user)
    }

    @Test("Its own session objects end with the session that is replaced; other sessions go on")
    func objectsEnd() throws {
        let token = try SoftHSM.shared().freshToken()
        var session = try token.openSession()
        var second = try token.openSession()
        let data: Template = [.objectClass(.data), .token(false), .private(false), .label("x"), .value([1])]
        _ = try session.createObject(data)
        #expect(try second.findObjects(matching: [.label("x")]).count == 1)
        try session.reopen(in: token.slot)
        #expect(try second.findObjects(matching: [.label("x")]).isEmpty)
    }
}
