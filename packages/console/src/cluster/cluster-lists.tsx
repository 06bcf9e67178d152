// Stacks and events of one cluster.
import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useCall, usePages } from '../api/use-call.ts'
import { Age, formatClock, formatExact } from '../parts/age.tsx'
import { Empty } from '../parts/empty.tsx'
import { StateText } from '../parts/icon.tsx'
import { More } from '../parts/more.tsx'
import { PanelBody } from '../parts/panel.tsx'
import { Name, plainText } from '../parts/text.tsx'

const reasonWords = { explicit: 'targeted', label: 'same label', annotation: 'same annotation' } as const

export function ClusterStacks({ agentId }: { agentId: string }) {
  const stacks = useCall('getAssociatedStacks', { params: { id: agentId } })
  const targets = useCall('listTargets', { params: { id: agentId }, query: { reason: 'all', limit: 1000 } })
  const reasons = useMemo(() => new Map((targets.data ?? []).map((target) => [target.stack_id, target.reasons])), [targets.data])
  return (
    <PanelBody query={stacks}>
      {(rows) =>
        rows.length === 0 ? (
          <Empty title="No stack reaches this cluster">
            A stack reaches a cluster by a shared label, a shared annotation, or a target.
          </Empty>
        ) : (
          <div className="table-wrap" tabIndex={0}>
            <table className="table">
              <thead>
                <tr>
                  <th>Stack</th>
                  <th>Why</th>
                  <th>Drift</th>
                  <th className="num">Changed</th>
                </tr>
              </thead>
              <tbody>
                {rows
                  .toSorted((a, b) => (a.name < b.name ? -1 : 1))
                  .slice(0, 500)
                  .map((stack) => (
                    <tr key={stack.id}>
                      <td>
                        <Link to="/stacks/$id" params={{ id: stack.id }} search={{ cluster: agentId }}>
                          <Name text={stack.name} className="b" />
                        </Link>
                      </td>
                      <td className="ink-2">{(reasons.get(stack.id) ?? []).map((reason) => reasonWords[reason]).join(', ')}</td>
                      <td className="ink-2">{stack.drift}</td>
                      <td className="num">
                        <Age at={stack.updated_at} />
                      </td>
                    </tr>
                  ))}
              </tbody>
            </table>
            {rows.length > 500 ? <p className="quiet">500 of {rows.length} are shown; search under Stacks for others.</p> : null}
          </div>
        )
      }
    </PanelBody>
  )
}

export function ClusterEvents({ agentId }: { agentId: string }) {
  const pages = usePages('listEvents', { params: { id: agentId }, query: { limit: 100 } })
  const events = useMemo(() => pages.data?.pages.flatMap((page) => page.rows) ?? [], [pages.data])
  return (
    <PanelBody query={{ ...pages, refetch: () => pages.refetch() }}>
      {() =>
        events.length === 0 ? (
          <Empty title="No event yet">The agent reports here what it applied, what failed and what drifted.</Empty>
        ) : (
          <ul className="scroll" tabIndex={0}>
            {events.map((event) => (
              <li key={event.id} className="ev-row wrap">
                <span className="mono ink-3 f12" title={formatExact(event.created_at)}>
                  {formatClock(event.created_at)}
                </span>
                <StateText state={event.status === 'SUCCESS' ? 'current' : event.event_type === 'DRIFT' ? 'degraded' : 'failing'}>
                  {plainText(event.event_type.toLowerCase(), 40)}
                </StateText>
                <span className="mono f12 ink-3">{event.sequence_id ?? ''}</span>
                <span className="ink-2">{plainText(event.message ?? event.error_code ?? '', 600)}</span>
              </li>
            ))}
            <li>
              <More hasMore={pages.hasNextPage} isLoading={pages.isFetchingNextPage} load={() => void pages.fetchNextPage()} />
            </li>
          </ul>
        )
      }
    </PanelBody>
  )
}
