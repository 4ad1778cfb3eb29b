import NIOCore

/// The served connections of one socket by their sources.
struct ConnectionPlaces {
    /// A source and its number of connections. An object, so that a place reads the number without a look-up.
    final class Counted {
        let source: ConnectionSource
        var connections = 0

        init(_ source: ConnectionSource) { self.source = source }
    }

    struct Place {
        let channel: any Channel
        /// The narrowest first.
        var sources: [Counted]
        /// Counted up with each connection that is served.
        let number: Int
    }

    /// Connections that are counted by where they come from.
    private(set) var unidentified: [ObjectIdentifier: Place] = [:]
    /// Those that are counted by their client.
    private var identified: [ObjectIdentifier: Place] = [:]
    private var counts: [ConnectionSource: Counted] = [:]
    private var admitted = 0
    var overloaded = 0
    var isDraining = false

    var served: Int { unidentified.count + identified.count }
    var channels: [any Channel] { (Array(unidentified.values) + identified.values).map(\.channel) }

    func count(of source: ConnectionSource) -> Int { counts[source]?.connections ?? 0 }

    mutating func serve(_ channel: any Channel, _ sources: [ConnectionSource]) {
        admitted += 1
        unidentified[ObjectIdentifier(channel)] = Place(
            channel: channel, sources: sources.map { enter($0) }, number: admitted)
    }

    mutating func leave(_ channel: any Channel) {
        let identifier = ObjectIdentifier(channel)
        guard let place = unidentified.removeValue(forKey: identifier) ?? identified.removeValue(forKey: identifier)
        else { return }
        leave(place.sources)
    }

    mutating func identify(
        _ channel: any Channel, as source: ConnectionSource, atMost most: Int, ofAll: Int
    ) -> Bool {
        let identifier = ObjectIdentifier(channel)
        guard var place = identified[identifier] ?? unidentified[identifier] else { return false }
        guard place.sources.first?.source != source else { return true }
        guard count(of: source) < most, identified[identifier] != nil || identified.count < ofAll else { return false }
        unidentified[identifier] = nil
        leave(place.sources)
        place.sources = [enter(source)]
        identified[identifier] = place
        return true
    }

    /// Frees the place of the oldest connection of the largest source: of the widest sources the one with the most connections,
    /// in it the one with the most, and so on. Among equals the oldest.
    ///
    /// - Parameter source: the only source in which one gives way; nil for all.
    mutating func dismissOldest(within source: ConnectionSource?) -> (any Channel)? {
        let only = source.flatMap { counts[$0] }
        var chosen: (identifier: ObjectIdentifier, place: Place)?
        for (identifier, place) in unidentified where only.map({ place.counts(for: $0) }) ?? true {
            if let other = chosen?.place, !place.givesWay(before: other) { continue }
            chosen = (identifier, place)
        }
        guard let chosen else { return nil }
        unidentified[chosen.identifier] = nil
        leave(chosen.place.sources)
        return chosen.place.channel
    }

    private mutating func enter(_ source: ConnectionSource) -> Counted {
        let counted = counts[source] ?? Counted(source)
        counted.connections += 1
        counts[source] = counted
        return counted
    }

    private mutating func leave(_ sources: [Counted]) {
        for counted in sources {
            counted.connections -= 1
            if counted.connections == 0 { counts[counted.source] = nil }
        }
    }
}

extension ConnectionPlaces.Place {
    fileprivate func counts(for source: ConnectionPlaces.Counted) -> Bool { sources.contains { $0 === source } }

    fileprivate func givesWay(before other: Self) -> Bool {
        for (own, others) in zip(sources.reversed(), other.sources.reversed()) where own !== others {
            if own.connections != others.connections { return own.connections > others.connections }
        }
        return number < other.number
    }
}

/// Closes a connection that gives way to another at once. First in the pipeline, so that no transport says farewell before: TLS
/// would keep the descriptor until the peer has answered.
final class DismissalHandler: ChannelInboundHandler, Sendable {
    typealias InboundIn = Any

    struct Dismissed: Sendable {}

    private let dismissed: @Sendable () -> Void

    init(_ dismissed: @escaping @Sendable () -> Void) { self.dismissed = dismissed }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard event is Dismissed else { return context.fireUserInboundEventTriggered(event) }
        dismissed()
        context.close(promise: nil)
    }
}
