// The audit log: who did what, denials included. Filters are part of the URL; the broker searches.
import type { AuditLog } from '@brokkr/contract/audit/audit-log.ts'
import { useInfiniteQuery } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { Fragment, useEffect, useState } from 'react'
import { callPage } from '../api/call.ts'
import { formatExact } from '../parts/age.tsx'
import { Empty, NothingMatches } from '../parts/empty.tsx'
import { StateText } from '../parts/icon.tsx'
import { More } from '../parts/more.tsx'
import { PanelBody } from '../parts/panel.tsx'
import { Name, plainText } from '../parts/text.tsx'
import { describeAudit } from './describe-audit.ts'

const route = getRouteApi('/audit')
const actors = ['', 'admin', 'agent', 'generator', 'system'] as const
const resources = [
  '',
  'agent',
  'stack',
  'deployment_object',
  'generator',
  'template',
  'webhook_subscription',
  'work_order',
  'pak',
  'session',
  'target',
  'diagnostic',
  'config',
  'system',
] as const

export function AuditScreen() {
  const search = route.useSearch()
  const navigate = useNavigate()
  const set = (change: Record<string, string>) =>
    void navigate({
      to: '/audit',
      search: Object.fromEntries(Object.entries({ ...search, ...change }).filter(([, value]) => value)),
      replace: true,
    })
  const query = {
    limit: 100,
    ...(search.action === undefined ? {} : { action: search.action }),
    ...(search.actor === undefined ? {} : { actor_type: search.actor }),
    ...(search.resource === undefined ? {} : { resource_type: search.resource }),
  }
  const pages = useInfiniteQuery({
    queryKey: ['listAuditLogs', { query }],
    queryFn: ({ signal, pageParam }) =>
      callPage('listAuditLogs', { query: { ...query, ...(pageParam === null ? {} : { cursor: pageParam }) } }, { signal }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
  })
  const rows = pages.data?.pages.flatMap((page) => page.rows.logs) ?? []
  const total = pages.data?.pages[0]?.rows.total
  const filters = ['action', 'actor', 'resource'].filter((name) => search[name as 'action'] !== undefined).length
  return (
    <>
      <div className="head">
        <h1>Audit</h1>
        <span className="ink-3 head-note">
          {total === undefined ? 'Who did what, denials included' : `${total.toLocaleString('en')} entries`}
        </span>
      </div>
      <section className="card">
        <div className="filters">
          <ActionFilter value={search.action ?? ''} onChange={(action) => set({ action })} />
          <Choice label="Actor" value={search.actor ?? ''} options={actors} onChange={(actor) => set({ actor })} />
          <Choice label="Resource" value={search.resource ?? ''} options={resources} onChange={(resource) => set({ resource })} />
        </div>
        <PanelBody query={{ ...pages, refetch: () => pages.refetch() }}>
          {() =>
            rows.length === 0 ? (
              filters > 0 ? (
                <NothingMatches filters={filters} clear={() => void navigate({ to: '/audit', search: {} })} />
              ) : (
                <Empty title="No entry yet" />
              )
            ) : (
              <Entries rows={rows} openId={search.id} open={(id) => set({ id: search.id === id ? '' : id })}>
                <More hasMore={pages.hasNextPage} isLoading={pages.isFetchingNextPage} load={() => void pages.fetchNextPage()} />
              </Entries>
            )
          }
        </PanelBody>
      </section>
    </>
  )
}

function Entries({
  rows,
  openId,
  open,
  children,
}: {
  rows: readonly AuditLog[]
  openId: string | undefined
  open: (id: string) => void
  children: React.ReactNode
}) {
  return (
    <div className="table-wrap" tabIndex={0}>
      <table className="table">
        <thead>
          <tr>
            <th>Time</th>
            <th>Actor</th>
            <th>What</th>
            <th>Action</th>
            <th>From</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((entry) => (
            <Fragment key={entry.id}>
              <tr className={entry.id === openId ? 'on' : ''}>
                <td className="mono f12">{formatExact(entry.timestamp)}</td>
                <td>
                  <Name text={entry.actor_name ?? entry.actor_type} />
                </td>
                <td>
                  <button type="button" className="link-row" aria-expanded={entry.id === openId} onClick={() => open(entry.id)}>
                    {describeAudit(entry)}
                  </button>
                </td>
                <td>
                  {/denied|failed/.test(entry.action) ? (
                    <StateText state="failing">{entry.action}</StateText>
                  ) : (
                    <span className="mono f12">{plainText(entry.action, 60)}</span>
                  )}
                </td>
                <td className="mono f12 ink-3">{plainText(entry.ip_address ?? '', 60)}</td>
              </tr>
              {entry.id === openId ? (
                <tr>
                  <td colSpan={5}>
                    <pre className="code-block" tabIndex={0} aria-label="Entry">
                      {plainText(
                        JSON.stringify(
                          { resource: `${entry.resource_type} ${entry.resource_id ?? ''}`, ...entry.details, user_agent: entry.user_agent },
                          null,
                          2,
                        ),
                        20_000,
                      )}
                    </pre>
                  </td>
                </tr>
              ) : null}
            </Fragment>
          ))}
        </tbody>
      </table>
      {children}
    </div>
  )
}

function ActionFilter({ value, onChange }: { value: string; onChange: (next: string) => void }) {
  const [text, setText] = useState(value)
  useEffect(() => {
    if (text === value) return undefined
    const timer = setTimeout(() => onChange(text), 300)
    return () => clearTimeout(timer)
  })
  return (
    <input
      className="input grow"
      data-search
      aria-label="Action"
      placeholder="action, such as stack.* or auth.denied"
      value={text}
      onChange={(event) => setText(event.target.value)}
    />
  )
}

function Choice({
  label,
  value,
  options,
  onChange,
}: {
  label: string
  value: string
  options: readonly string[]
  onChange: (next: string) => void
}) {
  return (
    <select className="select" aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
      {options.map((option) => (
        <option key={option} value={option}>
          {option === '' ? `any ${label.toLowerCase()}` : option.replaceAll('_', ' ')}
        </option>
      ))}
    </select>
  )
}
