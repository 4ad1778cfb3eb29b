import AuditChain

extension AuditCaller {
    /// A peer that a rule matched.
    init(_ caller: Caller) {
        self.init(caller.peer, name: AuditText(caller.name))
    }

    /// - Parameter name: nil for a peer that no rule matched.
    init(_ peer: PeerCredentials, name: AuditText?) {
        self.init(
            name: name, uid: peer.uid, gid: peer.gid, loginUID: peer.loginUID.number,
            pid: peer.pid > 0 ? peer.pid : nil,
            comm: peer.comm.map { AuditText($0) })
    }
}
