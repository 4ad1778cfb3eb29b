import Foundation
import TestSupport

/// A library that programs preload. It counts a program's events: changes of files under a path, and messages to a
/// database server. Before, during or after one of them it ends or stops the program.
struct Interruptions: Sendable {
    /// The place of an interruption relative to its event.
    enum Place: String, CaseIterable, Sendable {
        case before
        /// Half of the bytes are written.
        case amid
        case after
        /// The program stops before the event, until it receives SIGCONT.
        case stop
    }

    /// The interruption at the event with this number, counted from 1.
    struct Point: Sendable, CustomStringConvertible {
        let event: Int
        let place: Place

        var description: String { "\(place.rawValue) event \(event)" }
    }

    private let directory: FreshDirectory

    /// Compiles the library.
    init() async throws {
        directory = try FreshDirectory()
        let source = try directory.write(Self.source, to: "interrupt.c")
        let built = try await Program.run(
            Program.installed("clang"),
            ["-O1", "-shared", "-fPIC", "-o", directory.path("interrupt.so"), source, "-ldl"])
        guard built.status == 0 else { throw HarnessFailure(description: "\(built)") }
    }

    /// A run of a program that counts its events.
    final class Run: Sendable {
        let program: RunningProgram
        private let counter: String

        fileprivate init(_ program: RunningProgram, counter: String) {
            (self.program, self.counter) = (program, counter)
        }

        /// The number of events so far.
        var events: Int {
            guard let bytes = try? Data(contentsOf: URL(filePath: counter)), bytes.count >= 8 else { return 0 }
            return bytes.prefix(8).reversed().reduce(0) { $0 << 8 | Int($1) }
        }
    }

    /// Starts a program of this package.
    ///
    /// - Parameters:
    ///   - path: the beginning of the paths of the files whose changes count; nil to count messages to a server.
    ///   - point: nil to count only.
    func start(_ name: String, _ arguments: [String], counting path: String?, until point: Point?) throws -> Run {
        let counter = try directory.write([UInt8](repeating: 0, count: 8), to: UUID().uuidString)
        var environment = [
            "LD_PRELOAD": directory.path("interrupt.so"), "INTERRUPT_COUNTER": counter,
            "INTERRUPT_FILES": path ?? "",
            // The daemon of a test host has no state directory.
            "STATE_DIRECTORY": directory.path,
        ]
        if let point {
            environment["INTERRUPT_AT"] = "\(point.event)"
            environment["INTERRUPT_PLACE"] = point.place.rawValue
        }
        return Run(try RunningProgram(Program.built(name), arguments, environment: environment), counter: counter)
    }

    private static let source = """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <fcntl.h>
        #include <signal.h>
        #include <stdatomic.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <sys/socket.h>
        #include <unistd.h>

        static _Atomic long long *count;
        static long long last;
        static char place;
        static const char *files;

        __attribute__((constructor)) static void begin(void) {
            const char *counter = getenv("INTERRUPT_COUNTER"), *at = getenv("INTERRUPT_AT"), *where = getenv("INTERRUPT_PLACE");
            files = getenv("INTERRUPT_FILES");
            int file = counter ? open(counter, O_RDWR | O_CLOEXEC) : -1;
            if (file < 0) return;
            count = mmap(0, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            close(file);
            last = at ? atoll(at) : 0;
            place = where ? (!strcmp(where, "before") ? 'b' : !strcmp(where, "amid") ? 'm' : !strcmp(where, "after") ? 'a' : 's') : 0;
        }
        static int is_counted(int descriptor) {
            if (!count || !*files) return 0;
            char link[64], path[4096];
            snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
            ssize_t length = readlink(link, path, sizeof path - 1);
            return length > 0 && !strncmp(path, files, strlen(files));
        }
        static int is_named(const char *path) { return count && *files && !strncmp(path, files, strlen(files)); }
        static void end(void) { kill(getpid(), SIGKILL); for (;;) pause(); }
        // Returns the place of the interruption if this is its event, otherwise 0.
        static char event(int counts) {
            if (!counts || atomic_fetch_add(count, 1) + 1 != last) return 0;
            if (place == 'b') end();
            if (place == 's') raise(SIGSTOP);
            return place;
        }
        #define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))
        #define EVENT(counts, call) char at = event(counts); typeof(call) result = call; if (at == 'a' || at == 'm') end(); return result
        #define WRITING(counts, size, whole, half) char at = event(counts); ssize_t result = at == 'm' && size > 1 ? half : whole; \\
            if (at == 'a' || at == 'm') end(); return result

        ssize_t pwrite64(int f, const void *b, size_t n, off64_t o) {
            WRITING(is_counted(f), n, REAL(pwrite64)(f, b, n, o), REAL(pwrite64)(f, b, n / 2, o));
        }
        ssize_t pwrite(int f, const void *b, size_t n, off_t o) {
            WRITING(is_counted(f), n, REAL(pwrite)(f, b, n, o), REAL(pwrite)(f, b, n / 2, o));
        }
        ssize_t write(int f, const void *b, size_t n) {
            WRITING(is_counted(f), n, REAL(write)(f, b, n), REAL(write)(f, b, n / 2));
        }
        ssize_t send(int f, const void *b, size_t n, int flags) {
            WRITING(count && !*files, n, REAL(send)(f, b, n, flags), REAL(send)(f, b, n / 2, flags));
        }
        int fsync(int f) { EVENT(is_counted(f), REAL(fsync)(f)); }
        int fdatasync(int f) { EVENT(is_counted(f), REAL(fdatasync)(f)); }
        int ftruncate(int f, off_t n) { EVENT(is_counted(f), REAL(ftruncate)(f, n)); }
        int ftruncate64(int f, off64_t n) { EVENT(is_counted(f), REAL(ftruncate64)(f, n)); }
        int unlink(const char *p) { EVENT(is_named(p), REAL(unlink)(p)); }
        int link(const char *p, const char *q) { EVENT(is_named(q), REAL(link)(p, q)); }
        int rename(const char *p, const char *q) { EVENT(is_named(q), REAL(rename)(p, q)); }

        """
}

/// Waits until the process has stopped itself or ended.
///
/// - Returns: false if it has ended.
func awaitStop(of program: RunningProgram) async throws -> Bool {
    try await wait(for: "an interruption") { !program.isRunning || state(of: program.processIdentifier) == "T" }
    return program.isRunning
}

private func state(of process: Int32) -> Character? {
    // By proc(5) the state follows the last parenthesis.
    guard let status = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8),
        let name = status.lastIndex(of: ")")
    else { return nil }
    return status[name...].dropFirst(2).first
}
