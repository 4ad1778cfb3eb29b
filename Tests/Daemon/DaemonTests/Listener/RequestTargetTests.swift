import Testing

@testable import Daemon
@testable import HTTPListener

@Suite("Request targets")
struct RequestTargetTests {
    @Test(
        "reads all three forms",
        arguments: [
            ("/", "/"), ("/a/b", "/a/b"), ("/%61/b", "/a/b"), ("/a%2fb/%252F", "/a%2Fb/%252F"), ("/a+b", "/a+b"),
            ("*", "*"), ("http://h", "/"),
            ("HTTP://h:80/p", "/p"), ("https://h/p", "/p"), ("https://[::1]:8443", "/"), ("/%E2%82%AC", "/€"),
        ])
    func readsAllForms(text: String, path: String) {
        #expect(RequestTarget(text)?.path == path)
        #expect(RequestTarget(text)?.query == [:])
    }

    @Test("reads a query as names with values, each name once")
    func readsQuery() {
        #expect(RequestTarget("/p?dry_run=true&at=1%3D2&&flag")?.query == ["dry_run": "true", "at": "1=2", "flag": ""])
        #expect(RequestTarget("/p?")?.query == [:])
        #expect(RequestTarget("https://h?a=/b") == RequestTarget("/?a=/b"))
        #expect(RequestTarget("/p?a=1&a=1") == nil)
        let many = (0..<33).map { "n\($0)=1" }.joined(separator: "&")
        #expect(RequestTarget("/p?\(many)") == nil)
    }

    @Test(
        "refuses an invalid target",
        arguments: [
            "", "p", "?a=b", "ftp://h/p", "http:/p", "https://", "https:///p", "http://:80/p", "http://u@h/p",
            "https://h#/p",
            "//h\u{7f}", "/%", "/%4", "/%g1", "/%C3", "/a%00b", "/a%0d%0aX:y", "/a#b",
            "/" + String(repeating: "a", count: 4_096),
        ])
    func refusesInvalidTarget(text: String) {
        #expect(RequestTarget(text) == nil)
    }

    @Test("writes the Date header as RFC 9110 does")
    func formatsDate() {
        // The first date is the example of RFC 9110 §5.6.7. The second is a leap day.
        #expect(HTTPDate.text(of: 784_111_777) == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(HTTPDate.text(of: 1_709_164_800) == "Thu, 29 Feb 2024 00:00:00 GMT")
    }
}
