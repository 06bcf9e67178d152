// The broker itself: the feed, connected agents, background tasks, and every setting with its source.
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useFeed, useReadonlyReason } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { Age, formatClock } from '../parts/age.tsx'
import { Command } from '../parts/command.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { StateText } from '../parts/icon.tsx'
import { Panel } from '../parts/panel.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { Name, plainText } from '../parts/text.tsx'

const route = getRouteApi('/broker')
const tabs = [
  { id: 'tasks', label: 'Tasks' },
  { id: 'connections', label: 'Connections' },
  { id: 'settings', label: 'Configuration' },
] as const

export function BrokerScreen() {
  const { tab = 'tasks' } = route.useSearch()
  const navigate = useNavigate()
  return (
    <>
      <div className="head">
        <h1>Broker</h1>
        <FeedFacts />
        <div className="acts">
          <Tabs
            options={tabs}
            value={tab as 'tasks'}
            label="Parts of the broker"
            onChange={(next) => void navigate({ to: '/broker', search: { tab: next } })}
          />
        </div>
      </div>
      {tab === 'tasks' ? <Tasks /> : null}
      {tab === 'connections' ? <Connections /> : null}
      {tab === 'settings' ? <Settings /> : null}
    </>
  )
}

function FeedFacts() {
  const { state, heardAtMs, broker } = useFeed()
  return (
    <span className="ink-2 head-note">
      <StateText state={state === 'live' ? 'current' : state === 'stale' ? 'stale' : 'progressing'}>feed {state}</StateText>
      {broker === null ? null : (
        <>
          <span className="dot">·</span>process <span className="mono">{plainText(broker, 60)}</span>
        </>
      )}
      {heardAtMs === null ? null : (
        <>
          <span className="dot">·</span>heard {formatClock(heardAtMs)}
        </>
      )}
    </span>
  )
}

function Tasks() {
  const tasks = useCall('listTasks', {}, { everyMs: 5_000 })
  return (
    <Panel title="Background tasks" count={tasks.data?.length} query={tasks}>
      {(rows) => (
        <div className="table-wrap" tabIndex={0}>
          <table className="table">
            <thead>
              <tr>
                <th>Task</th>
                <th>Last result</th>
                <th className="num">Every</th>
                <th className="num">Last run</th>
                <th>Runs on</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((task) => (
                <tr key={task.name}>
                  <td className="b">{task.name}</td>
                  <td>
                    {task.last_error === null ? (
                      <span className="ink-2">
                        {Object.entries(task.last_result ?? {})
                          .map(([key, count]) => `${key} ${count}`)
                          .join(', ')}
                      </span>
                    ) : (
                      <StateText state="failing">{plainText(task.last_error, 200)}</StateText>
                    )}
                  </td>
                  <td className="num">{task.every_seconds} s</td>
                  <td className="num">{task.last_run_at === null ? 'not yet' : <Age at={task.last_run_at} />}</td>
                  <td>
                    <Name text={task.lease_owner ?? ''} className="mono f12" />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  )
}

function Connections() {
  const connections = useCall('listWsConnections', {}, { everyMs: 5_000 })
  const fleet = useCall('listFleet', { query: { include: 'agent', limit: 1000 } })
  const nameOf = new Map((fleet.data ?? []).map(({ agent_id, name }) => [agent_id as string, name]))
  return (
    <Panel title="Agents connected by WebSocket" count={connections.data?.connected_agents} query={connections}>
      {({ connections: rows, live_subscribers }) => (
        <>
          <p className="quiet">
            {live_subscribers} live {live_subscribers === 1 ? 'reader' : 'readers'}. Agents that use the stream or poll are not in this
            list.
          </p>
          {rows.length === 0 ? null : (
            <div className="table-wrap" tabIndex={0}>
              <table className="table">
                <thead>
                  <tr>
                    <th>Agent</th>
                    <th className="num">Connected</th>
                    <th className="num">Received</th>
                    <th className="num">Sent</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((row) => (
                    <tr key={row.agent_id}>
                      <td>
                        <Name text={nameOf.get(row.agent_id) ?? row.agent_id} className="b" />
                      </td>
                      <td className="num">
                        <Age at={row.connected_since} />
                      </td>
                      <td className="num">{row.messages_in}</td>
                      <td className="num">{row.messages_out}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </>
      )}
    </Panel>
  )
}

function Settings() {
  const config = useCall('getConfig', {})
  const reload = useDeed('reloadConfig')
  const blocked = useReadonlyReason()
  const [text, setText] = useState('')
  return (
    <Panel
      title="Configuration"
      query={config}
      tools={
        <button
          type="button"
          className="btn sm push"
          disabled={blocked !== null || reload.isPending}
          title={blocked ?? 'reads the configuration file again in every process'}
          onClick={() => reload.mutate({})}
        >
          Reload
        </button>
      }
    >
      {(settings) => (
        <>
          <div className="filters">
            <input
              className="input grow"
              data-search
              aria-label="Find a setting"
              placeholder="name of a setting"
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
            {reload.data === undefined ? null : (
              <StateText state={reload.data.success ? 'current' : 'failing'}>
                {reload.data.message ?? `${reload.data.changes.length} settings changed`}
              </StateText>
            )}
          </div>
          {reload.error === null ? null : <ErrorCard error={reload.error} />}
          <div className="table-wrap" tabIndex={0}>
            <table className="table">
              <thead>
                <tr>
                  <th>Setting</th>
                  <th>Value</th>
                  <th>Source</th>
                  <th>Reload</th>
                </tr>
              </thead>
              <tbody>
                {Object.entries(settings)
                  .filter(([name]) => name.includes(text))
                  .map(([name, { value, source, reloadable }]) => (
                    <tr key={name}>
                      <td className="mono f12">{name}</td>
                      <td className="mono f12">{plainText(JSON.stringify(value) ?? '', 200)}</td>
                      <td className="ink-2">{plainText(source, 60)}</td>
                      <td className="ink-2">{reloadable ? 'by reload' : 'by restart'}</td>
                    </tr>
                  ))}
              </tbody>
            </table>
          </div>
          <div className="pad">
            <Command text="brokkr doctor" />
          </div>
        </>
      )}
    </Panel>
  )
}
