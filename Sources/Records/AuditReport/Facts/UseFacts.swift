import AuditChain
import StrictJSON

/// The part *Use*: the uses of the keys, by caller and time.
struct UseFacts {
    let builder: ReportBuilder
    let findings: [Finding]

    private static let (maximumCharts, maximumCallers) = (24, 10)

    /// The charts in groups: all uses and refusals, then those of each caller, then those of each key.
    var charts: [JSONValue] {
        let (steps, days) = (builder.period.steps, builder.uses.daysOfCallers.values)
        let all = [
            chart(["of": "all"], steps.map { ReportBuilder.sum(days, $0) }),
            chart(["of": "refusals"], steps.map { ReportBuilder.sum([builder.refusals.days], $0) }),
        ]
        let callers = group(builder.uses.daysOfCallers.map { ($0.key, ["of": "caller", "caller": $0.key], $0.value) })
        let keys = group(
            builder.uses.daysOfKeys.map { key, days in
                (key.base64, ["of": "key", "key": key, "merchant": builder.keys[key]?.merchant], days)
            })
        return [.facts(["charts": all]), callers, keys]
    }

    /// Returns the charts of the series with the most uses, each with its name, its members and its uses by day.
    private func group(
        _ series: [(name: String, members: KeyValuePairs<String, (any ReportFact)?>, days: [Int: Int])]
    ) -> JSONValue {
        let sorted = series.map { ($0, $0.days.values.reduce(0, +)) }
            .sorted { ($1.1, $0.0.name) < ($0.1, $1.0.name) }
        return .facts([
            "charts": sorted.prefix(Self.maximumCharts).map { series, _ in
                chart(series.members, builder.period.steps.map { ReportBuilder.sum([series.days], $0) })
            },
            "more": sorted.count > Self.maximumCharts,
        ])
    }

    /// Returns a bar chart with one value for each step of the period. Steps without a use have no bar.
    private func chart(_ members: KeyValuePairs<String, (any ReportFact)?>, _ values: [Int]) -> JSONValue {
        let steps = builder.period.steps
        // More than six dates would overlap.
        let stride = (steps.count + 5) / 6
        let labels = Swift.stride(from: 0, to: steps.count, by: max(1, stride)).map { start -> JSONValue in
            let (middle, end) = (start + stride / 2, min(start + stride, steps.count))
            return .facts(["span": end - start, "day": middle < end ? steps[middle].text : ""])
        }
        let bars = values.enumerated().filter { $0.element > 0 }.map { at, count -> JSONValue in
            .facts(["at": at, "from": steps[at].text, "count": count])
        }
        let chart = JSONValue.facts(members).objectValue?.members ?? []
        let rest = JSONValue.facts([
            "most": max(1, values.max() ?? 1), "steps": max(1, steps.count), "bars": bars, "labels": labels,
        ])
        return .object(JSONObject(chart + (rest.objectValue?.members ?? [])) ?? JSONObject())
    }

    /// The uses of each caller in each hour of the day.
    var hours: [JSONValue] {
        builder.uses.hoursOfCallers.sorted { $0.key < $1.key }.map { caller, hours in
            var counts = Array(repeating: 0, count: 24)
            for (hour, requests) in hours { counts[(hour % 24 + 24) % 24] += requests.count }
            return .facts(["caller": caller, "hours": counts])
        }
    }

    // MARK: Pairs and refusals

    func pairs(_ figures: Figures) -> [JSONValue] {
        builder.sortedUses.map { pair, use in
            let of = "key \(pair.key?.base64 ?? "none") by \(pair.caller ?? "nobody")"
            return .facts([
                "key": pair.key, "caller": pair.caller, "merchant": use.merchant, "first": use.firstUse,
                "last": use.lastUse,
                "released": use.uses == 0 ? nil : figures.figure(use.released, "decrypt, ok, \(of)"),
                "repeated": use.uses == 0 ? nil : figures.figure(use.repeated, "decrypt, repeat, \(of)"),
                "signed": use.uses == 0 ? nil : figures.figure(use.signed, "tls_signature, ok, \(of)"),
                "refused": Self.codes(use.refused.mapValues(\.count)),
            ])
        }
    }

    /// The reasons of refusals, each with the callers that had the most of them.
    func reasons(_ figures: Figures) -> [JSONValue] {
        builder.refusals.reasons.sorted { $0.key < $1.key }.map { code, reason in
            .facts([
                "code": code,
                "requests": figures.figure(reason.records, "decrypt, tls_signature or request, \(code)"),
                "summary": reason.summary, "callers": Self.most(reason.callers),
                "moreCallers": max(0, reason.callers.count - Self.maximumCallers).ifAny,
            ])
        }
    }

    static func codes(_ refused: [String: Int]) -> [JSONValue] {
        refused.sorted { $0.key < $1.key }.map { .facts(["code": $0.key, "count": $0.value]) }
    }

    static func operations(_ uses: [String: Int]) -> [JSONValue] {
        uses.sorted { $0.key < $1.key }.map { .facts(["operation": $0.key, "count": $0.value]) }
    }

    /// Returns the callers with the most requests, and their numbers.
    static func most(_ callers: [String: Int]) -> [JSONValue] {
        greatest(callers).map { .facts(["caller": $0.key, "count": $0.value]) }
    }

    /// Returns the callers, or other names, with the greatest numbers, at most ``maximumCallers``.
    static func greatest(_ counts: [String: Int]) -> ArraySlice<(key: String, value: Int)> {
        counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(maximumCallers)
    }

    var refusals: [JSONValue] {
        builder.refusals.sortedCallers.map { name, caller in
            let worst = caller.worstHour
            return .facts([
                "caller": name, "count": caller.requests.count, "first": caller.requests.first,
                "last": caller.requests.last,
                "worstHour": worst.hour, "inWorstHour": worst.count,
            ])
        }
    }

    /// The replays outside of bursts, at most ``maximumReplays``.
    var replays: [JSONValue] {
        builder.refusals.singleReplays.prefix(Self.maximumReplays).map { replay in
            .facts([
                "time": replay.time, "caller": replay.caller, "key": replay.key, "record": replay.place,
                "openedBy": replay.opening?.caller, "openedAt": replay.opening?.time,
                "opening": replay.opening?.place,
            ])
        }
    }

    static let maximumReplays = 2_000

    // MARK: The HSM tokens' own counts

    /// The HSM tokens' own counts of their keys' uses, compared with the record.
    var tokenUses: [JSONValue] {
        let reconciliation = builder.reconciliation
        return reconciliation.logs.enumerated().map { place, log in
            let explained = reconciliation.explained(by: findings, of: place)
            return .facts([
                "kind": log.kind.rawValue, "since": log.since, "until": log.until, "node": log.node, "token": log.token,
                "serial": log.serial, "recordedSerials": builder.hsmTokens.serials(of: log),
                "otherSerial": builder.hsmTokens.hasOtherSerial(log) ? true : nil, "file": log.file?.name,
                "sha256": log.file?.digest.hex,
                "keys": reconciliation.comparisons[place].map { comparison in
                    .facts([
                        "key": comparison.key, "merchant": builder.keys[comparison.key]?.merchant,
                        "auditKeyOf": reconciliation.auditKeys[comparison.key], "counted": comparison.counted,
                        "least": comparison.recorded.least,
                        "most": comparison.recorded.most, "unexplained": comparison.unexplained.ifAny,
                        "missing": comparison.missing, "perhaps": comparison.perhaps.ifAny,
                        "operations": log.kind == .log
                            ? Self.operations((log.operations[comparison.key] ?? [:]).mapValues(\.count)) : nil,
                    ])
                } as [JSONValue],
                "unexplained": explained.unexplained, "explainable": explained.explainable,
                "certain": explained.certain, "seals": explained.seals.ifAny,
                "explainableSeals": explained.explainableSeals.ifAny,
                "losses": reconciliation.losses(findings, of: place).map { loss in
                    let (seals, uses) = (
                        reconciliation.explainable(by: loss, of: place, areSeals: true),
                        reconciliation.explainable(by: loss, of: place, areSeals: false)
                    )
                    return .facts([
                        "node": loss.node, "first": loss.first, "last": loss.last, "explainable": seals + uses,
                        "seals": seals.ifAny, "clock": loss.kind == .clockSetBack ? true : nil,
                        "withoutUse": loss.kind == .recordsLost
                            ? reconciliation.lostSeals(of: loss, in: [place]).withoutUse.ifAny : nil,
                        "room": reconciliation.room(in: loss, of: place).ifAny,
                    ])
                } as [JSONValue],
                "days": reconciliation.unexplainedDays(of: place, findings).map { day in
                    .facts([
                        "day": ReportStep.text(ofDay: day.day), "key": day.key,
                        "merchant": builder.keys[day.key]?.merchant, "counted": day.counted,
                        "unexplained": day.times.count, "losses": day.losses.compactMap(\.node),
                        "hours": hours(of: day, in: place),
                    ])
                } as [JSONValue],
            ])
        }
    }

    /// The uses of a day that neither a record nor a loss explains, by hour, with the records nearest to them.
    private func hours(of day: Reconciliation.UnexplainedDay, in log: Int) -> [JSONValue] {
        day.hours.map { hour in
            .facts([
                "uses": hour.uses, "first": hour.first, "last": hour.last,
                "before": builder.reconciliation.nearest(to: hour.first, of: day.key, in: log).before,
                "after": builder.reconciliation.nearest(to: hour.last, of: day.key, in: log).after,
            ])
        }
    }
}

extension ReportBuilder {
    /// The uses, sorted by key and caller.
    var sortedUses: [(pair: KeyUseTally.Pair, use: KeyUseTally.Use)] {
        uses.uses.map { ($0.key, $0.value) }.sorted { left, right in
            (left.0.key?.base64 ?? "", left.0.caller ?? "") < (right.0.key?.base64 ?? "", right.0.caller ?? "")
        }
    }

    /// Returns the sum of the counts on the days of a step.
    static func sum(_ days: some Collection<[Int: Int]>, _ step: ReportStep) -> Int {
        let range = KeyUseTally.index(step.start, 86_400_000)..<KeyUseTally.index(step.end, 86_400_000)
        return days.reduce(0) { sum, days in
            sum + range.reduce(0) { $0 + (days[$1] ?? 0) }
        }
    }
}
