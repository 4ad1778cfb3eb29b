import Glibc
package import HostSystem
import SecretMemory

extension ConfigurationSection {
    /// The absolute path of a secret's file, which nobody but the daemon's user and root can read; nil after a reported problem.
    ///
    /// - Parameters:
    ///   - use: what somebody else who reads the file could do.
    ///   - maximumBytes: the longest secret taken.
    ///   - hasLines: whether it may have more than one line.
    package func secretFile(
        _ name: String, use: String, maximumBytes: Int = 256, hasLines: Bool = false
    ) -> String? {
        guard let text = text(name) else { return nil }
        // systemd puts credentials into a directory of the service's own and says where (systemd.exec(5), Credentials).
        let variable = "$CREDENTIALS_DIRECTORY/"
        let checked = { checkedSecret($0, of: name, use: use, maximumBytes: maximumBytes, hasLines: hasLines) }
        guard text.hasPrefix(variable) else { return checked(reader.absolute(text)) }
        guard let directory = reader.environment["CREDENTIALS_DIRECTORY"], directory.hasPrefix("/") else {
            problem(
                name, "CREDENTIALS_DIRECTORY is not set; start the daemon from a systemd unit with LoadCredential=")
            return nil
        }
        return checked(directory + "/" + text.dropFirst(variable.count))
    }

    /// Reads the secret as it will be read when it is needed, and forgets it.
    package func checkedSecret(
        _ path: String, of name: String, use: String, maximumBytes: Int = 256, hasLines: Bool = false
    ) -> String? {
        do throws(SecretFileError) {
            _ = try SecretBytes(contentsOfFile: path, maximumCount: maximumBytes, hasLines: hasLines)
            if let readers = SecretFileReaders(ofFile: path) {
                problem(name, "the secret's file \(path) \(readers.problem(use: use))")
                return nil
            }
            return path
        } catch {
            problem(name, error.description)
            return nil
        }
    }
}

/// Who besides the daemon's user and root can read a secret's file, as a member of its group.
package struct SecretFileReaders: Equatable {
    package let group: String
    /// By name.
    package let people: [String]

    /// nil: nobody can. The file's other rights are checked where it is read (SecretBytes).
    package init?(ofFile path: String) {
        var status = stat()
        guard unsafe stat(path, &status) == 0, status.st_mode & S_IRGRP != 0,
            let (group, members) = Accounts.members(ofGroup: status.st_gid)
        else { return nil }
        self.init(group: group, gid: status.st_gid, members: members, ownUID: geteuid())
    }

    /// - Parameters:
    ///   - gid: of the group.
    ///   - members: those whom its entry names, and those whose primary group it is.
    ///   - ownUID: of the process that asks.
    package init?(group: String, gid: UInt32, members: [Accounts.User], ownUID: UInt32) {
        let others = members.filter { member in
            // Root may be checking for the daemon, whose user it does not know: then a user's own group, of the same
            // name, counts nobody.
            let isOwnGroup = ownUID == 0 && member.name == group && member.gid == gid
            return member.uid != 0 && member.uid != ownUID && !isOwnGroup
        }
        guard !others.isEmpty else { return nil }
        self.group = group
        people = Set(others.map(\.name)).sorted()
    }

    /// Follows the file's name.
    /// - Parameter use: what they can do with the secret, without the daemon.
    package func problem(use: String) -> String {
        let shown = people.prefix(3).joined(separator: ", ") + (people.count > 3 ? " and others" : "")
        return "can be read by the members of the group \(group): \(shown). With the secret they \(use): "
            + "take the right away with chmod g-r, or give the file to a group of the daemon's user alone"
    }
}
