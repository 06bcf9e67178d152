// The timeline: versions, results in clusters, drift and other changes on one axis. The broker sums records per step of the range.
import type { TimelineEntry } from '@brokkr/contract/timeline/timeline.ts'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useEffect, useMemo } from 'react'
import { usePages } from '../api/use-call.ts'
import { Age, formatExact, useNow } from '../parts/age.tsx'
import { Empty } from '../parts/empty.tsx'
import { Glyph } from '../parts/icon.tsx'
import { More } from '../parts/more.tsx'
import { PanelBody } from '../parts/panel.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { Name, plainText } from '../parts/text.tsx'
import { TimelineAxis } from './timeline-axis.tsx'
import { describeEntry, entryState, laneOf, lanes, type Mark, ranges } from './timeline-model.ts'

const route = getRouteApi('/timeline')
const minuteMs = 60_000
/** Pages that are read without being asked for. */
const pagesRead = 4
const rowsMax = 300

export function TimelineScreen() {
  const { range: rangeId, to, mark: markId, since, until } = route.useSearch()
  const navigate = useNavigate()
  const now = useNow()
  const range = ranges.find(({ id }) => id === rangeId) ?? ranges[1]!
  // Rounded, so that marks and the key of the read stay in place for a while.
  const grain = range.id === '1h' ? minuteMs : 10 * minuteMs
  const toMs = Number.isNaN(Date.parse(to ?? '')) ? Math.ceil(now / grain) * grain : Date.parse(to!)
  const fromMs = toMs - range.ms
  const query = {
    step: range.step,
    limit: 2000,
    from: new Date(fromMs).toISOString(),
    ...(to === undefined ? {} : { to: new Date(toMs).toISOString() }),
  }
  const pages = usePages('listTimeline', { query })
  const { hasNextPage, isFetching, fetchNextPage } = pages
  const readCount = pages.data?.pages.length ?? 0
  useEffect(() => {
    if (hasNextPage && !isFetching && readCount < pagesRead) void fetchNextPage()
  }, [hasNextPage, isFetching, fetchNextPage, readCount])
  const entries = useMemo(() => pages.data?.pages.flatMap((page) => page.rows) ?? [], [pages.data])
  const go = (search: Record<string, string | undefined>) =>
    void navigate({
      to: '/timeline',
      search: Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined)),
      replace: true,
    })
  const choose = (mark: Mark | null) =>
    go({
      range: range.id,
      to,
      ...(mark === null ? {} : { mark: mark.id, since: mark.entries.at(-1)!.at, until: mark.entries[0]!.at }),
    })
  const lane = lanes.find(({ id }) => markId?.startsWith(`${id}-`) === true)
  const isChosen = (entry: TimelineEntry) =>
    lane === undefined ||
    since === undefined ||
    until === undefined ||
    (entry.at >= since && entry.at <= until && laneOf(entry) === lane.id)
  const shown = entries.filter(isChosen)
  const shift = (direction: -1 | 1) => {
    const end = toMs + (direction * range.ms) / 2
    go({ range: range.id, to: end >= now ? undefined : new Date(Math.floor(end / minuteMs) * minuteMs).toISOString() })
  }
  return (
    <>
      <div className="head">
        <h1>Timeline</h1>
        <span className="ink-3 head-note">Every change on one axis</span>
        <div className="acts">
          <button type="button" className="btn sm" onClick={() => shift(-1)}>
            Earlier
          </button>
          <button
            type="button"
            className="btn sm"
            disabled={to === undefined}
            title={to === undefined ? 'the newest records are shown' : undefined}
            onClick={() => shift(1)}
          >
            Later
          </button>
          <Tabs options={ranges} value={range.id} label="Range" onChange={(next) => go({ range: next, to })} />
        </div>
      </div>
      <section className="card">
        <PanelBody query={{ ...pages, refetch: () => pages.refetch() }}>
          {() => (
            <>
              <TimelineAxis
                entries={entries}
                fromMs={fromMs}
                toMs={toMs}
                unreadBeforeMs={hasNextPage ? Date.parse(entries.at(-1)?.since ?? new Date(toMs).toISOString()) : null}
                chosen={markId}
                choose={choose}
              />
              {entries.length === 0 && !hasNextPage ? (
                <Empty title={`No change in ${range.label}`} command="brokkr audit list">
                  Submitted versions, what clusters reported and what people changed appear here.
                </Empty>
              ) : (
                <Entries entries={shown} isWhole={shown.length === entries.length} clear={() => choose(null)}>
                  <More hasMore={hasNextPage} isLoading={pages.isFetchingNextPage} load={() => void fetchNextPage()} />
                </Entries>
              )}
            </>
          )}
        </PanelBody>
      </section>
    </>
  )
}

interface EntriesProps {
  readonly entries: readonly TimelineEntry[]
  readonly isWhole: boolean
  readonly clear: () => void
  readonly children: React.ReactNode
}

function Entries({ entries, isWhole, clear, children }: EntriesProps) {
  return (
    <div className="table-wrap" tabIndex={0}>
      {isWhole ? null : (
        <p className="quiet">
          {entries.length} {entries.length === 1 ? 'entry' : 'entries'} of the chosen mark{' '}
          <button type="button" className="btn sm" onClick={clear}>
            Show all
          </button>
        </p>
      )}
      <table className="table" aria-label="Changes">
        <thead>
          <tr>
            <th>Time</th>
            <th>What</th>
            <th>By</th>
            <th>Open</th>
          </tr>
        </thead>
        <tbody>
          {entries.slice(0, rowsMax).map((entry) => (
            <tr key={entry.id}>
              <td className="mono f12" title={formatExact(entry.at)}>
                <Age at={entry.at} suffix=" ago" />
              </td>
              <td>
                <span className="row">
                  <Glyph state={entryState(entry)} />
                  <span className="cut">{describeEntry(entry)}</span>
                  {entry.message === null ? null : <span className="ink-3 f12 cut">{plainText(entry.message, 160)}</span>}
                </span>
              </td>
              <td>
                <Name
                  text={entry.kind === 'agent' && entry.agents > 1 ? `${entry.agents} agents` : (entry.actor_name ?? entry.actor_type)}
                />
              </td>
              <td>
                <OpenLink entry={entry} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {entries.length > rowsMax ? <p className="quiet">{entries.length - rowsMax} more; choose a mark or a shorter range.</p> : null}
      {children}
    </div>
  )
}

function OpenLink({ entry }: { entry: TimelineEntry }) {
  if (entry.stack_id !== null && entry.deployment_object_id !== null && entry.kind === 'deployment')
    return (
      <Link to="/stacks/$id" params={{ id: entry.stack_id }} search={{ tab: 'history', to: entry.deployment_object_id }} className="link">
        Difference
      </Link>
    )
  if (entry.stack_id !== null)
    return (
      <Link to="/stacks/$id" params={{ id: entry.stack_id }} search={entry.kind === 'agent' ? { tab: 'events' } : {}} className="link">
        Stack
      </Link>
    )
  if (entry.resource_type === 'agent' && entry.resource_id !== null)
    return (
      <Link to="/clusters/$id" params={{ id: entry.resource_id }} className="link">
        Cluster
      </Link>
    )
  return (
    <Link to="/audit" search={{ action: entry.action }} className="link">
      Audit
    </Link>
  )
}
