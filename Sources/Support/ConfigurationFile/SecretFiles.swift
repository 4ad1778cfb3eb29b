import Glibc
package import HostSystem
import SecretMemory

// Unsafe: stat(2) writes only the structure that it receives.

extension ConfigurationSection {
    /// The absolute path of a secret's file, which only the daemon's user and root can read; nil after a reported
    /// problem.
    ///
    /// - Parameters:
    ///   - use: what anyone else who can read the file could do with the secret.
    ///   - maximumBytes: the longest secret accepted.
    ///   - hasLines: true if it may have more than one line.
    package func secretFile(
        _ name: String, use: String, maximumBytes: Int = 256, hasLines: Bool = false
    ) -> String? {
        guard let text = text(name) else { return nil }
        // systemd places credentials in a directory for the service, and sets this variable (systemd.exec(5),
        // Credentials).
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

    /// Reads the secret in the same way as when it is needed later, and discards it.
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

/// Members of a file's group, other than the daemon's user and root, who can read a secret.
package struct SecretFileReaders: Equatable {
    package let group: String
    /// The names of these users.
    package let people: [String]

    /// Finds the readers of a file; returns nil if there are none. Only the group's read permission is considered: the
    /// code that reads the file checks the other permissions (``SecretBytes``).
    package init?(ofFile path: String) {
        var status = stat()
        guard unsafe stat(path, &status) == 0, status.st_mode & S_IRGRP != 0,
            let (group, members) = Accounts.members(ofGroup: status.st_gid)
        else { return nil }
        self.init(group: group, gid: status.st_gid, members: members, ownUID: geteuid())
    }

    /// - Parameters:
    ///   - gid: the group's number.
    ///   - members: the users in the group's entry, and those whose primary group it is.
    ///   - ownUID: the user of this process.
    package init?(group: String, gid: UInt32, members: [Accounts.User], ownUID: UInt32) {
        let others = members.filter { member in
            // Root may check the configuration without knowing the daemon's user. A member with the same name as the
            // group is then ignored: the group is that user's own, and the user may be the daemon's.
            let isOwnGroup = ownUID == 0 && member.name == group && member.gid == gid
            return member.uid != 0 && member.uid != ownUID && !isOwnGroup
        }
        guard !others.isEmpty else { return nil }
        self.group = group
        people = Set(others.map(\.name)).sorted()
    }

    /// The end of a sentence that begins with the file's name.
    /// - Parameter use: what these users can do with the secret, without the daemon.
    package func problem(use: String) -> String {
        let shown = people.prefix(3).joined(separator: ", ") + (people.count > 3 ? " and others" : "")
        return "can be read by the members of the group \(group): \(shown). With the secret they \(use): "
            + "remove the permission with chmod g-r, or give the file to a group of the daemon's user alone"
    }
}
