// Flows of all clusters: state, rate, lag and dead letters as their agents report them, and the editor.
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { usePages } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { Empty, NothingMatches } from '../parts/empty.tsx'
import { StateText } from '../parts/icon.tsx'
import { More } from '../parts/more.tsx'
import { PanelBody } from '../parts/panel.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { Name } from '../parts/text.tsx'
import { FlowEditor } from './flow-editor.tsx'
import { describeFlow, flowState, formatCount, formatLag, formatRate } from './flow-words.ts'

const route = getRouteApi('/flows')
const tabs = [
  { id: 'list', label: 'Flows' },
  { id: 'editor', label: 'Editor' },
] as const
const states = ['running', 'pending', 'blocked', 'error', 'stopped', 'completed', 'unknown'] as const

export function FlowsScreen() {
  const { tab = 'list' } = route.useSearch()
  const navigate = useNavigate()
  return (
    <>
      <div className="head">
        <h1>Flows</h1>
        <span className="ink-3 head-note">Data flows of all clusters</span>
        <div className="acts">
          <Tabs
            options={tabs}
            value={tab as 'list'}
            label="Part"
            onChange={(next) => void navigate({ to: '/flows', search: next === 'list' ? {} : { tab: next } })}
          />
        </div>
      </div>
      <section className="card">{tab === 'editor' ? <FlowEditor /> : <FlowList />}</section>
    </>
  )
}

function FlowList() {
  const { search, state } = route.useSearch()
  const navigate = useNavigate()
  const [text, setText] = useState(search ?? '')
  const set = (change: { search?: string; state?: string }) =>
    void navigate({
      to: '/flows',
      search: Object.fromEntries(Object.entries({ search, state, ...change }).filter(([, value]) => value)),
      replace: true,
    })
  useEffect(() => {
    if (text === (search ?? '')) return undefined
    const timer = setTimeout(() => set({ search: text }), 150)
    return () => clearTimeout(timer)
  })
  const known = states.find((one) => one === state)
  const query = { limit: 100, ...(search === undefined ? {} : { search }), ...(known === undefined ? {} : { state: known }) }
  const pages = usePages('listFlows', { query }, { everyMs: 5_000 })
  const rows = pages.data?.pages.flatMap((page) => page.rows) ?? []
  const filters = Number(search !== undefined) + Number(known !== undefined)
  return (
    <>
      <div className="filters">
        <input
          className="input grow"
          data-search
          aria-label="Search flows"
          placeholder="part of the name"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <select className="select" aria-label="State" value={known ?? ''} onChange={(event) => set({ state: event.target.value })}>
          <option value="">any state</option>
          {states.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      </div>
      <PanelBody query={{ ...pages, refetch: () => pages.refetch() }}>
        {() =>
          rows.length === 0 ? (
            filters > 0 ? (
              <NothingMatches
                filters={filters}
                clear={() => {
                  setText('')
                  void navigate({ to: '/flows', search: {} })
                }}
              />
            ) : (
              <Empty title="No flow yet" command="brokkr apply -f flow.yaml --stack flows">
                A DataFlow moves data from a source over transforms to sinks. Deploy one with a stack; its agent reports it here.
              </Empty>
            )
          ) : (
            <div className="table-wrap" tabIndex={0}>
              <table className="table" aria-label="Flows">
                <thead>
                  <tr>
                    <th>Name</th>
                    <th>State</th>
                    <th className="num">Rate</th>
                    <th className="num">Lag</th>
                    <th className="num">Dead letters</th>
                    <th>Cluster</th>
                    <th>Stack</th>
                    <th className="num">Reported</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((flow) => (
                    <tr key={flow.id}>
                      <td>
                        <Link to="/flows/$id" params={{ id: flow.id }} className="b">
                          <Name text={flow.name} />
                        </Link>
                      </td>
                      <td>
                        <StateText state={flowState(flow)}>{describeFlow(flow)}</StateText>
                      </td>
                      <td className="num">{formatRate(flow.report) ?? 'unknown'}</td>
                      <td className="num">{formatLag(flow.report) ?? 'unknown'}</td>
                      <td className="num">{formatCount(flow.report?.errors) ?? 'unknown'}</td>
                      <td>
                        <Link to="/clusters/$id" params={{ id: flow.agent_id }}>
                          <Name text={flow.agent_name} />
                        </Link>
                      </td>
                      <td>
                        <Link to="/stacks/$id" params={{ id: flow.stack_id }}>
                          <Name text={flow.stack_name} />
                        </Link>
                      </td>
                      <td className="num">
                        <Age at={flow.reported_at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
              <More hasMore={pages.hasNextPage} isLoading={pages.isFetchingNextPage} load={() => void pages.fetchNextPage()} />
            </div>
          )
        }
      </PanelBody>
    </>
  )
}
