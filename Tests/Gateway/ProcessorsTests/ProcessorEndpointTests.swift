import Processors
import Testing

@Suite struct ProcessorEndpointTests {
    @Test(
        "reads the address of a processor",
        arguments: [
            ("https://pay.example", ProcessorEndpoint.Place.https(host: "pay.example", port: 443), ""),
            ("https://pay.example:8443/v1/", .https(host: "pay.example", port: 8443), "/v1"),
            ("https://[2001:db8::1]:8443/v1", .https(host: "2001:db8::1", port: 8443), "/v1"),
            ("http://127.0.0.1:8080", .loopback(host: "127.0.0.1", port: 8080), ""),
            ("http://[::1]:8080/x", .loopback(host: "::1", port: 8080), "/x"),
            ("unix:/run/s.sock", .unix(path: "/run/s.sock"), ""),
        ])
    func places(text: String, place: ProcessorEndpoint.Place, basePath: String) throws {
        #expect(try #require(ProcessorEndpoint(text)) == ProcessorEndpoint(place: place, basePath: basePath))
    }

    @Test(
        "refuses an invalid or unsafe address",
        arguments: [
            "", "pay.example", "http://pay.example", "http://10.0.0.1:80", "http://127.0.0.1.evil.example",
            "https://", "https://user:secret@pay.example", "https://pay.example?a=b", "https://pay.example#a",
            "https://pay.example:0", "https://pay.example:65536", "https://pay.example:x", "unix:relative", "unix:",
            "https://pay example", "ftp://pay.example", "https://pay.example\\@evil.example",
        ])
    func refused(_ text: String) {
        #expect(ProcessorEndpoint(text) == nil)
    }
}
