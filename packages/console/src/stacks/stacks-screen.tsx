// All stacks: search, filters in the URL, keyset pages, and only the visible rows in the document.
import type { ListedStack } from '@brokkr/contract/stacks/stack.ts'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useMemo, useRef, useState } from 'react'
import { useCall, usePages } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { useCalmList } from '../parts/calm-list.ts'
import { Empty, NothingMatches } from '../parts/empty.tsx'
import { Icon, Pill, type State, StateText } from '../parts/icon.tsx'
import { formatCount, Meter } from '../parts/meter.tsx'
import { DataAge, PanelBody } from '../parts/panel.tsx'
import { describeStack, stackState } from '../parts/states.ts'
import { Name } from '../parts/text.tsx'
import { NewStack } from './new-stack.tsx'

const route = getRouteApi('/stacks')
const pageSize = 200
const rowHeight = 31
const narrowRowHeight = 56

export function StacksScreen() {
  const search = route.useSearch()
  const overview = useCall('getOverview', {}, { everyMs: 10_000 })
  const [isCreating, setCreating] = useState(false)
  const counts = overview.data?.stacks
  return (
    <>
      <div className="head">
        <h1>Stacks</h1>
        {counts === undefined ? null : (
          <span className="ink-3">
            <b className="b ink">{formatCount(counts.healthy)}</b> of {formatCount(counts.total)} healthy
          </span>
        )}
        <div className="acts">
          <button type="button" className="btn go" onClick={() => setCreating(true)}>
            <Icon name="plus" size="m" />
            New stack
          </button>
        </div>
      </div>
      <section className="card">
        <Filters />
        <StateChips counts={counts} selected={search.health} />
        <StackRows />
      </section>
      {isCreating ? <NewStack onClose={() => setCreating(false)} /> : null}
    </>
  )
}

function useFilters() {
  const search = route.useSearch()
  const navigate = useNavigate()
  const set = (change: Partial<typeof search>) =>
    void navigate({
      to: '/stacks',
      search: Object.fromEntries(Object.entries({ ...search, ...change }).filter(([, value]) => value)),
      replace: true,
    })
  return { search, set, clear: () => void navigate({ to: '/stacks', search: {}, replace: true }) }
}

const settleMs = 150

function Filters() {
  const { search, set } = useFilters()
  const [text, setText] = useState(search.search ?? '')
  const latest = useRef(set)
  latest.current = set
  useEffect(() => {
    if (text === (search.search ?? '')) return undefined
    const timer = setTimeout(() => latest.current({ search: text }), settleMs)
    return () => clearTimeout(timer)
  }, [text, search.search])
  const labels = search.label === undefined ? [] : search.label.split(',')
  const addLabel = (label: string) => {
    set({ label: [...labels, label].join(','), search: '' })
    setText('')
  }
  return (
    <div className="filters">
      <div className="search">
        <Icon name="search" />
        {labels.map((label) => (
          <span key={label} className="tag">
            {label}
            <button
              type="button"
              className="chip-x"
              aria-label={`Remove filter ${label}`}
              onClick={() => set({ label: labels.filter((one) => one !== label).join(',') })}
            >
              <Icon name="x" size="s" />
            </button>
          </span>
        ))}
        <input
          data-search
          aria-label="Search stacks"
          placeholder="name, or a label such as env:prod and Enter"
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && /^\S+[:=]\S+$/.test(text)) addLabel(text)
          }}
        />
        <span className="kbd">/</span>
      </div>
      <Toggle label="Drifted" isOn={search.drifted === 'true'} onClick={() => set({ drifted: search.drifted === 'true' ? '' : 'true' })} />
      <Toggle label="Held" isOn={search.held === 'true'} onClick={() => set({ held: search.held === 'true' ? '' : 'true' })} />
    </div>
  )
}

const Toggle = ({ label, isOn, onClick }: { label: string; isOn: boolean; onClick: () => void }) => (
  <button type="button" className={isOn ? 'tab on' : 'tab'} aria-pressed={isOn} onClick={onClick}>
    {label}
  </button>
)

const chips = [
  ['healthy', 'current'],
  ['degraded', 'degraded'],
  ['failing', 'failing'],
  ['unknown', 'unknown'],
] as const satisfies readonly (readonly [string, State])[]

function StateChips({ counts, selected }: { counts: Record<(typeof chips)[number][0], number> | undefined; selected: string | undefined }) {
  const { set } = useFilters()
  return (
    <div className="state-chips">
      {chips.map(([health, state]) => (
        <button
          key={health}
          type="button"
          className={`state-chip st-${state} ${selected === health ? 'on' : ''}`}
          aria-pressed={selected === health}
          onClick={() => set({ health: selected === health ? '' : health })}
        >
          <b>{counts === undefined ? '…' : formatCount(counts[health])}</b>
          <StateText state={state}>{health}</StateText>
        </button>
      ))}
    </div>
  )
}

function StackRows() {
  const { search, clear } = useFilters()
  const query = {
    include: 'status' as const,
    limit: pageSize,
    ...(search.search === undefined ? {} : { search: search.search }),
    ...(search.health === undefined ? {} : { health: search.health as 'healthy' }),
    ...(search.label === undefined ? {} : { label: search.label.split(',') }),
    ...(search.drifted === 'true' ? { drifted: true } : {}),
    ...(search.held === 'true' ? { held: true } : {}),
  }
  const pages = usePages('listStacks', { query })
  const rows = useMemo(() => pages.data?.pages.flatMap((page) => page.rows) ?? [], [pages.data])
  const filters = Object.keys(search).length
  return (
    <PanelBody query={{ ...pages, refetch: () => pages.refetch() }}>
      {() =>
        rows.length === 0 ? (
          filters > 0 ? (
            <NothingMatches filters={filters} clear={clear} />
          ) : (
            <Empty title="No stack yet" command="brokkr apply -f k8s/ --stack shop">
              A stack is a set of manifests that Brokkr delivers to clusters with the same label.
            </Empty>
          )
        ) : (
          <VirtualRows rows={rows} pages={pages} filterKey={JSON.stringify(search)} />
        )
      }
    </PanelBody>
  )
}

function VirtualRows({
  rows,
  pages,
  filterKey,
}: {
  rows: readonly ListedStack[]
  pages: ReturnType<typeof usePages<'listStacks'>>
  filterKey: string
}) {
  const calm = useCalmList(rows, (row) => row.id, `${filterKey} ${pages.data?.pages.length}`)
  const body = useRef<HTMLDivElement>(null)
  const height = matchMedia('(max-width: 900px)').matches ? narrowRowHeight : rowHeight
  const virtual = useVirtualizer({
    count: calm.rows.length,
    getScrollElement: () => body.current,
    estimateSize: () => height,
    overscan: 12,
  })
  const items = virtual.getVirtualItems()
  const last = items.at(-1)?.index ?? 0
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = pages
  useEffect(() => {
    if (last >= calm.rows.length - 40 && hasNextPage && !isFetchingNextPage) void fetchNextPage()
  }, [last, calm.rows.length, hasNextPage, isFetchingNextPage, fetchNextPage])
  return (
    <div className="vtable">
      <div className="vrow vhead">
        <span>Name</span>
        <span className="num">Desired</span>
        <span>As desired</span>
        <span>Health</span>
        <span>Drift</span>
        <span className="num">Seen</span>
        <span className="num">Changed</span>
      </div>
      <div ref={body} className="vbody" {...calm.hold} tabIndex={-1} role="list" aria-label="Stacks">
        <div style={{ height: virtual.getTotalSize(), position: 'relative' }}>
          {items.map((item) => {
            const { row, isGone } = calm.rows[item.index]!
            return (
              <div
                key={row.id}
                role="listitem"
                style={{ position: 'absolute', top: 0, left: 0, right: 0, transform: `translateY(${item.start}px)` }}
              >
                <StackRow stack={row} isGone={isGone} />
              </div>
            )
          })}
        </div>
      </div>
      <div className="filters">
        <span className="ink-3 f12">
          {formatCount(calm.rows.length)}
          {hasNextPage ? ' read, more follow' : ` ${calm.rows.length === 1 ? 'stack' : 'stacks'}`}
        </span>
        {calm.newer > 0 ? (
          <button type="button" className="newer" onClick={calm.take}>
            <Icon name="up" size="s" />
            {calm.newer} newer
          </button>
        ) : null}
        <DataAge query={pages} />
      </div>
    </div>
  )
}

function StackRow({ stack, isGone }: { stack: ListedStack; isGone: boolean }) {
  const { status } = stack
  const state = stackState(status)
  const words = describeStack(status)
  return (
    <Link to="/stacks/$id" params={{ id: stack.id }} className={isGone ? 'vrow gone' : 'vrow'}>
      <Name text={stack.name} className="b" />
      <span className="num mono">{status?.desired_sequence_id ?? ''}</span>
      <span className="of">
        <span>
          <b className="b">{status?.agents_current ?? 0}</b> of {status?.agents_total ?? 0}
        </span>
        <Meter
          shares={[
            ['current', status?.agents_current ?? 0],
            ['failing', status?.agents_failed ?? 0],
            ['progressing', Math.max(0, (status?.agents_total ?? 0) - (status?.agents_current ?? 0) - (status?.agents_failed ?? 0))],
          ]}
        />
      </span>
      <span>
        {isGone ? (
          <span className="ink-3">deleted</span>
        ) : state === 'current' || state === 'wait' ? (
          <StateText state={state}>{words}</StateText>
        ) : (
          <Pill state={state}>{words}</Pill>
        )}
      </span>
      <span>{(status?.drifted ?? 0) > 0 ? <StateText state="degraded">{status!.drifted} clusters</StateText> : null}</span>
      <span className="num">{status?.oldest_seen_at ? <Age at={status.oldest_seen_at} /> : null}</span>
      <span className="num">
        <Age at={stack.updated_at} />
      </span>
    </Link>
  )
}
