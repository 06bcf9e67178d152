// Work orders: one-off jobs for agents. Open ones with their claims, finished ones with their result, and the output while it arrives.
import type { WorkOrder } from '@brokkr/contract/work-orders/work-order.ts'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { usePages } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { Empty } from '../parts/empty.tsx'
import { Icon, Pill, type State, StateText } from '../parts/icon.tsx'
import { More } from '../parts/more.tsx'
import { PanelBody } from '../parts/panel.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { Name } from '../parts/text.tsx'
import { NewWorkOrder } from './new-work-order.tsx'
import { WorkOrderPanel } from './work-order-panel.tsx'

const route = getRouteApi('/work-orders')
const tabs = [
  { id: 'open', label: 'Open' },
  { id: 'finished', label: 'Finished' },
] as const

export function WorkOrdersScreen() {
  const { tab = 'open', id } = route.useSearch()
  const navigate = useNavigate()
  const [isCreating, setCreating] = useState(false)
  const show = (search: { tab?: string; id?: string }) => void navigate({ to: '/work-orders', search })
  return (
    <>
      <div className="head">
        <h1>Work orders</h1>
        <span className="ink-3 head-note">One-off jobs that one matching cluster claims and runs</span>
        <div className="acts">
          <button type="button" className="btn go" onClick={() => setCreating(true)}>
            <Icon name="plus" size="m" />
            New work order
          </button>
        </div>
      </div>
      <div className={id === undefined ? 'cols' : 'cols with-panel'}>
        <section className="card lined">
          <header>
            <Tabs options={tabs} value={tab as 'open'} label="Which work orders" onChange={(next) => show({ tab: next })} />
          </header>
          {tab === 'open' ? <OpenOrders chosen={id} /> : <FinishedOrders chosen={id} />}
        </section>
        {id === undefined ? null : <WorkOrderPanel key={id} id={id} isFinished={tab === 'finished'} close={() => show({ tab })} />}
      </div>
      {isCreating ? <NewWorkOrder onClose={() => setCreating(false)} onCreated={(order) => show({ tab: 'open', id: order })} /> : null}
    </>
  )
}

export const orderState = (status: WorkOrder['status']): State =>
  status === 'COMPLETED'
    ? 'current'
    : status === 'FAILED'
      ? 'failing'
      : status === 'RETRY_PENDING'
        ? 'degraded'
        : status === 'CLAIMED'
          ? 'progressing'
          : 'wait'
const words: Readonly<Record<WorkOrder['status'], string>> = {
  PENDING: 'not claimed yet',
  CLAIMED: 'running',
  RETRY_PENDING: 'waits for a retry',
  COMPLETED: 'completed',
  FAILED: 'failed',
}

function OpenOrders({ chosen }: { chosen: string | undefined }) {
  const pages = usePages('listWorkOrders', { query: { limit: 100 } })
  const rows = useMemo(() => pages.data?.pages.flatMap((page) => page.rows) ?? [], [pages.data])
  return (
    <PanelBody query={{ ...pages, refetch: () => pages.refetch() }}>
      {() =>
        rows.length === 0 ? (
          <Empty title="No open work order" command="brokkr work-orders create -f job.yaml --label env:prod">
            A work order runs a manifest once, for example a migration, on one cluster that matches.
          </Empty>
        ) : (
          <div className="table-wrap" tabIndex={0}>
            <table className="table">
              <thead>
                <tr>
                  <th>Type</th>
                  <th>State</th>
                  <th className="num">Attempt</th>
                  <th>Last error</th>
                  <th className="num">Created</th>
                </tr>
              </thead>
              <tbody>
                {rows.map((order) => (
                  <tr key={order.id} className={order.id === chosen ? 'on' : ''}>
                    <td>
                      <Link to="/work-orders" search={{ tab: 'open', id: order.id }}>
                        <Name text={order.work_type} className="b" />
                      </Link>
                    </td>
                    <td>
                      <Pill state={orderState(order.status)}>{words[order.status]}</Pill>
                    </td>
                    <td className="num">
                      {order.retry_count + 1} of {order.max_retries + 1}
                    </td>
                    <td>
                      <Name text={order.last_error ?? ''} className="ink-2" />
                    </td>
                    <td className="num">
                      <Age at={order.created_at} />
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
  )
}

function FinishedOrders({ chosen }: { chosen: string | undefined }) {
  const pages = usePages('listWorkOrderLog', { query: { limit: 100 } })
  const rows = useMemo(() => pages.data?.pages.flatMap((page) => page.rows) ?? [], [pages.data])
  return (
    <PanelBody query={{ ...pages, refetch: () => pages.refetch() }}>
      {() =>
        rows.length === 0 ? (
          <Empty title="No finished work order">Finished work orders stay here with their result and output.</Empty>
        ) : (
          <div className="table-wrap" tabIndex={0}>
            <table className="table">
              <thead>
                <tr>
                  <th>Type</th>
                  <th>Result</th>
                  <th>Message</th>
                  <th className="num">Retries</th>
                  <th className="num">Completed</th>
                </tr>
              </thead>
              <tbody>
                {rows.map((order) => (
                  <tr key={order.id} className={order.id === chosen ? 'on' : ''}>
                    <td>
                      <Link to="/work-orders" search={{ tab: 'finished', id: order.id }}>
                        <Name text={order.work_type} className="b" />
                      </Link>
                    </td>
                    <td>
                      <StateText state={order.success ? 'current' : 'failing'}>{order.success ? 'succeeded' : 'failed'}</StateText>
                    </td>
                    <td>
                      <Name text={order.result_message ?? ''} className="ink-2" />
                    </td>
                    <td className="num">{order.retries_attempted}</td>
                    <td className="num">
                      <Age at={order.completed_at} />
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
  )
}
