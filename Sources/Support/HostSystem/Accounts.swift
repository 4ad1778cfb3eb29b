import Glibc
import Locks

// Unsafe: The reentrant calls write only the entry and the buffer, whose length they receive. The result is copied
// before the buffer is freed.

/// A user or group whose name was resolved while the configuration was read.
package struct Account: Sendable, Equatable {
    package let name: String
    package let id: UInt32

    package init(name: String, id: UInt32) {
        self.name = name
        self.id = id
    }
}

/// The system's users and groups (getpwnam_r(3), getgrnam_r(3)). They are looked up while the configuration is read,
/// and for the names of people who take part in an approval. They never determine a peer's rights.
package enum Accounts {
    package struct User: Equatable {
        package let name: String
        package let uid: UInt32
        package let gid: UInt32

        package init(name: String, uid: UInt32, gid: UInt32) {
            self.name = name
            self.uid = uid
            self.gid = gid
        }
    }

    /// The user with this name or number; nil for an unknown name. A number without an account gives a user whose name
    /// and group are that number.
    package static func user(_ text: String) -> User? {
        if let uid = UInt32(text) {
            return unsafe lookUp { unsafe getpwuid_r(uid, $0, $1, $2, $3) } ?? User(name: text, uid: uid, gid: uid)
        }
        return user(named: text)
    }

    /// The name of the account with this number; nil if there is none, or if the lookup fails. Blocks until a directory
    /// service responds.
    package static func name(uid: UInt32) -> String? { unsafe lookUp { unsafe getpwuid_r(uid, $0, $1, $2, $3) }?.name }

    /// The group's identifier, by name or number.
    package static func group(_ text: String) -> Account? {
        if let gid = UInt32(text) { return Account(name: text, id: gid) }
        return entry(ofGroup: text).map { Account(name: text, id: $0.gid) }
    }

    /// The group's identifier and all its members: the users in its entry, and those whose primary group it is.
    package static func members(ofGroup name: String) -> (gid: UInt32, users: [User])? {
        guard let (_, gid, names) = entry(ofGroup: name) else { return nil }
        let named = names.compactMap(user(named:))
        return (gid, named + users(withPrimaryGroup: gid).filter { !named.contains($0) })
    }

    /// The group with this number, and all its members. Nil if the group has no entry and is no user's primary group.
    package static func members(ofGroup gid: UInt32) -> (name: String, users: [User])? {
        let entry = unsafe entry { unsafe getgrgid_r(gid, $0, $1, $2, $3) }
        let named = entry?.names.compactMap(user(named:)) ?? []
        let users = named + users(withPrimaryGroup: gid).filter { !named.contains($0) }
        return entry == nil && users.isEmpty ? nil : (entry?.name ?? String(gid), users)
    }

    /// All groups of a user, including the primary group (getgrouplist(3)).
    package static func groups(of user: User) -> [UInt32] {
        var count: CInt = 64
        for _ in 0..<2 {
            var groups = [gid_t](repeating: 0, count: Int(count))
            if unsafe getgrouplist(user.name, user.gid, &groups, &count) >= 0 {
                return Array(groups.prefix(Int(count)))
            }
        }
        return [user.gid]
    }

    private static func user(named name: String) -> User? {
        unsafe lookUp { unsafe getpwnam_r(name, $0, $1, $2, $3) }
    }

    private static let bufferSizes = [4_096, 65_536, 1_048_576]

    private typealias PasswordCall = (
        UnsafeMutablePointer<passwd>, UnsafeMutablePointer<CChar>, Int,
        UnsafeMutablePointer<UnsafeMutablePointer<passwd>?>
    ) -> CInt

    private static func lookUp(_ call: PasswordCall) -> User? {
        for size in bufferSizes {
            let buffer = UnsafeMutablePointer<CChar>.allocate(capacity: size)
            defer { unsafe buffer.deallocate() }
            var entry = unsafe passwd()
            var found: UnsafeMutablePointer<passwd>?
            let result = unsafe call(&entry, buffer, size, &found)
            if result == ERANGE { continue }
            guard result == 0, let found = unsafe found else { return nil }
            return unsafe User(found.pointee)
        }
        return nil
    }

    private typealias GroupCall = (
        UnsafeMutablePointer<group>, UnsafeMutablePointer<CChar>, Int,
        UnsafeMutablePointer<UnsafeMutablePointer<group>?>
    ) -> CInt

    private static func entry(ofGroup name: String) -> (name: String, gid: UInt32, names: [String])? {
        unsafe entry { unsafe getgrnam_r(name, $0, $1, $2, $3) }
    }

    private static func entry(_ call: GroupCall) -> (name: String, gid: UInt32, names: [String])? {
        for size in bufferSizes {
            let buffer = UnsafeMutablePointer<CChar>.allocate(capacity: size)
            defer { unsafe buffer.deallocate() }
            var entry = unsafe Glibc.group()
            var found: UnsafeMutablePointer<Glibc.group>?
            let result = unsafe call(&entry, buffer, size, &found)
            if result == ERANGE { continue }
            guard result == 0, let group = unsafe found?.pointee else { return nil }
            var names: [String] = []
            var next = unsafe group.gr_mem
            while let member = unsafe next?.pointee {
                unsafe names.append(String(cString: member))
                unsafe next = unsafe next?.advanced(by: 1)
            }
            return unsafe (String(cString: group.gr_name), group.gr_gid, names)
        }
        return nil
    }

    /// Protects the position of getpwent(3), which is global to the process.
    private static let walk = Mutex<Void>(())

    private static func users(withPrimaryGroup gid: UInt32) -> [User] {
        walk.withLock { _ in everyUser(withPrimaryGroup: gid) }
    }

    private static func everyUser(withPrimaryGroup gid: UInt32) -> [User] {
        setpwent()
        defer { endpwent() }
        var users: [User] = []
        // A directory service can have very many users, so the search is limited. A warning about other readers needs
        // only some of them.
        for _ in 0..<100_000 {
            guard let entry = unsafe getpwent() else { break }
            let user = unsafe User(entry.pointee)
            if user.gid == gid { users.append(user) }
        }
        return users
    }
}

extension Accounts.User {
    fileprivate init(_ entry: passwd) {
        unsafe self.init(
            name: String(cString: entry.pw_name), uid: entry.pw_uid, gid: entry.pw_gid)
    }
}
