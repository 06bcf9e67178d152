// Invites a cluster: name it, run the command, watch it turn green. The token is in this page's memory only.
import type { Output } from '@brokkr/contract/endpoints.ts'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { formatSpan, useNow } from '../parts/age.tsx'
import { Command, CopyButton, shellWord } from '../parts/command.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { Glyph, type State } from '../parts/icon.tsx'
import { clusterState } from '../parts/states.ts'

export function JoinWizard() {
  const [name, setName] = useState('')
  const [labels, setLabels] = useState('')
  const [generators, setGenerators] = useState<readonly string[]>([])
  const paks = useCall('listPaks', {})
  const invite = useDeed('createAgentInvite')
  const blocked = useReadonlyReason()
  const words = labels.split(/[\s,]+/).filter(Boolean)
  return (
    <section className="card wizard">
      <div className="wizard-step">
        <span className={invite.data === undefined ? 'step-no' : 'step-no done'}>1</span>
        <form
          className="grow pad-form"
          onSubmit={(event) => {
            event.preventDefault()
            invite.mutate({ body: { name, cluster_name: name, labels: words, generator_ids: [...generators] } })
          }}
        >
          <h2>Name it</h2>
          <div className="form-row">
            <label className="field grow">
              <span>Name</span>
              <input className="input mono" required value={name} onChange={(event) => setName(event.target.value)} placeholder="edge-17" />
            </label>
            <label className="field grow">
              <span>Labels, separated by spaces</span>
              <input
                className="input mono"
                value={labels}
                onChange={(event) => setLabels(event.target.value)}
                placeholder="env:prod site:malmo"
              />
            </label>
          </div>
          {(paks.data ?? []).length === 0 ? null : (
            <fieldset className="choices">
              <legend>Receives stacks of</legend>
              {paks.data!.map((generator) => (
                <label key={generator.id} className="check">
                  <input
                    type="checkbox"
                    checked={generators.includes(generator.id)}
                    onChange={({ target }) =>
                      setGenerators((all) => (target.checked ? [...all, generator.id] : all.filter((id) => id !== generator.id)))
                    }
                  />
                  {generator.name}
                </label>
              ))}
            </fieldset>
          )}
          {invite.error === null ? null : <ErrorCard error={invite.error} />}
          <div className="row">
            <button
              type="submit"
              className="btn go"
              disabled={name === '' || invite.isPending || blocked !== null}
              title={blocked ?? undefined}
            >
              Create invite
            </button>
            <span className="ink-3 f12">{blocked ?? 'one use, valid 30 min'}</span>
          </div>
        </form>
      </div>
      {invite.data === undefined ? null : <Watch invite={invite.data} />}
    </section>
  )
}

function Watch({ invite }: { invite: Output<'createAgentInvite'> }) {
  const now = useNow()
  const read = useCall('getAgentInvite', { params: { id: invite.id } }, { everyMs: 2_000 })
  const agentId = read.data?.agents[0]
  const status = useCall('getAgentFleetStatus', { params: { id: agentId ?? '' } }, { enabled: agentId !== undefined, everyMs: 2_000 })
  const agent = useCall('getAgent', { params: { id: agentId ?? '' } }, { enabled: agentId !== undefined, everyMs: 2_000 })
  const record = status.data?.record
  const state = record === undefined ? null : clusterState({ ...record, connection_state: agent.data?.connection_state ?? 'never' })
  const steps: readonly (readonly [string, State])[] = [
    ['token used', agentId === undefined ? 'progressing' : 'current'],
    ['joined', agentId === undefined ? 'wait' : 'current'],
    ['connected', agent.data?.connection_state === 'connected' ? 'current' : agentId === undefined ? 'wait' : 'progressing'],
    ['current', state === 'current' ? 'current' : agentId === undefined ? 'wait' : 'progressing'],
  ]
  const isGreen = state === 'current'
  const command = `curl -fsS -H 'Authorization: Join ${invite.token}' ${location.origin}/api/v1/join/manifest | kubectl apply -f -`
  return (
    <>
      <div className="wizard-step">
        <span className={agentId === undefined ? 'step-no' : 'step-no done'}>2</span>
        <div className="grow pad-form">
          <div className="row">
            <h2 className="grow">Run this where kubectl reaches the cluster</h2>
            <span className="ink-3 f12">
              {agentId === undefined ? `one use, valid ${formatSpan(Date.parse(invite.expires_at) - now)}` : 'used'}
            </span>
          </div>
          <div className={isGreen ? 'join-command green' : 'join-command'}>
            <code>{command}</code>
            <CopyButton text={command} label="Copy the command" />
          </div>
          <details className="f12">
            <summary>With the CLI</summary>
            <Command text={`brokkr join --name ${shellWord(invite.name ?? '')}`} />
          </details>
        </div>
      </div>
      <div className="wizard-step">
        <span className={isGreen ? 'step-no done' : 'step-no'}>3</span>
        <div className="grow pad-form">
          <h2>Watch it turn green</h2>
          <ol className="join-steps">
            {steps.map(([label, stepState]) => (
              <li key={label} data-state={stepState}>
                <Glyph state={stepState} size="l" />
                <span>{label}</span>
              </li>
            ))}
          </ol>
          {agentId === undefined ? (
            <p className="ink-3 f12">
              Nothing after 60 s? <code className="mono">kubectl -n brokkr logs deploy/brokkr-agent</code> names the cause.
            </p>
          ) : (
            <Link to="/clusters/$id" params={{ id: agentId }} className="btn">
              Open the cluster
            </Link>
          )}
        </div>
      </div>
    </>
  )
}
