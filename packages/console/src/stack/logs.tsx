// Log lines of the stack's pods, newest at the end; the view follows until it is scrolled up.
import type { AgentStackStatus } from '@brokkr/contract/stacks/stack.ts'
import { useEffect, useRef, useState } from 'react'
import { useCall } from '../api/use-call.ts'
import { formatClock, formatExact } from '../parts/age.tsx'
import { Empty } from '../parts/empty.tsx'
import { PanelBody } from '../parts/panel.tsx'
import { Name, plainText } from '../parts/text.tsx'

export function Logs({ stackId, units }: { stackId: string; units: readonly AgentStackStatus[] }) {
  const logs = useCall('listTelemetryLogs', { params: { id: stackId }, query: { limit: 500 } }, { everyMs: 2_000 })
  const [filter, setFilter] = useState('')
  const [isFollowing, setFollowing] = useState(true)
  const list = useRef<HTMLOListElement>(null)
  useEffect(() => {
    if (isFollowing && list.current !== null) list.current.scrollTop = list.current.scrollHeight
  })
  const nameOf = new Map(units.map((unit) => [unit.agent_id, unit.agent_name]))
  return (
    <PanelBody query={logs}>
      {({ lines, retention }) => {
        const shown = lines.filter(({ line, pod }) => filter === '' || line.includes(filter) || pod.includes(filter)).toReversed()
        if (lines.length === 0)
          return (
            <Empty title="No log line stored">
              Lines of pods with the label brokkr.io/stream-logs are kept for {Math.round(retention.effective_retention_seconds / 3600)}{' '}
              hours. For other pods request diagnostics.
            </Empty>
          )
        return (
          <>
            <div className="filters">
              <input
                className="input grow"
                aria-label="Filter lines"
                placeholder="text in the line or the pod"
                value={filter}
                onChange={(event) => setFilter(event.target.value)}
              />
              <span className="ink-3 f12">{shown.length} lines</span>
              {isFollowing ? (
                <span className="ink-3 f12">following</span>
              ) : (
                <button type="button" className="newer" onClick={() => setFollowing(true)}>
                  Follow
                </button>
              )}
            </div>
            <ol
              ref={list}
              className="logs"
              tabIndex={0}
              aria-label="Log lines"
              onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) =>
                setFollowing(scrollHeight - scrollTop - clientHeight < 24)
              }
            >
              {shown.map((line) => (
                <li key={line.id}>
                  <span title={formatExact(line.ts)}>{formatClock(line.ts)}</span>
                  <Name text={`${line.pod} ${nameOf.get(line.agent_id) ?? ''}`} />
                  <span className="line">{plainText(line.line, 2_000)}</span>
                </li>
              ))}
            </ol>
          </>
        )
      }}
    </PanelBody>
  )
}
