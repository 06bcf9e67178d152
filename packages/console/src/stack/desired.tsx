// The manifest of the newest version, and the form that submits another one: the effect is shown before it is submitted.
import type { DryRun } from '@brokkr/contract/deployments/deployment-object.ts'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { call } from '../api/call.ts'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { Command, shellWord } from '../parts/command.tsx'
import { Empty } from '../parts/empty.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { PanelBody } from '../parts/panel.tsx'
import { plainText } from '../parts/text.tsx'
import { useToast } from '../parts/toast.tsx'
import { MaskedText } from './diff-view.tsx'

export function Desired({ stackId, stackName }: { stackId: string; stackName: string }) {
  const objects = useCall('listDeploymentObjects', { params: { id: stackId }, query: { content: true, limit: 1 } })
  const [isEditing, setEditing] = useState(false)
  return (
    <PanelBody query={objects}>
      {([head]) => (
        <div className="pad">
          {isEditing ? (
            <Submit stackId={stackId} stackName={stackName} close={() => setEditing(false)} />
          ) : (
            <div className="row">
              <span className="grow ink-2">
                {head === undefined ? '' : `Version ${head.sequence_id}, ${head.yaml_checksum.slice(0, 12)}`}
              </span>
              <button type="button" className="btn" onClick={() => setEditing(true)}>
                Submit a version
              </button>
            </div>
          )}
          {head === undefined ? (
            <Empty title="No version yet" command={`brokkr apply -f k8s/ --stack ${shellWord(stackName)}`} />
          ) : (
            <pre className="code-block" tabIndex={0} aria-label="Manifest">
              {head.yaml_content.split('\n').map((line, index) => (
                <span key={index}>
                  <MaskedText text={line} />
                  {'\n'}
                </span>
              ))}
            </pre>
          )}
        </div>
      )}
    </PanelBody>
  )
}

function Submit({ stackId, stackName, close }: { stackId: string; stackName: string; close: () => void }) {
  const [text, setText] = useState('')
  const blocked = useReadonlyReason()
  const toast = useToast()
  const body = { yaml_content: text }
  const plan = useMutation({
    mutationFn: async () =>
      (await call('createDeploymentObject', { params: { id: stackId }, query: { dry_run: true }, body })) as unknown as DryRun,
  })
  const deed = useDeed('createDeploymentObject', (object) => {
    toast(`${stackName} ${object.sequence_id} submitted`)
    close()
  })
  const error = plan.error ?? deed.error
  return (
    <div className="pad-form">
      <label className="field">
        <span>Manifests, YAML</span>
        <textarea
          className="area"
          rows={12}
          spellCheck={false}
          value={text}
          onChange={(event) => {
            setText(event.target.value)
            plan.reset()
          }}
        />
      </label>
      {plan.data === undefined ? null : <Effect plan={plan.data} />}
      {error === null ? null : <ErrorCard error={error} />}
      <Command text={`brokkr apply -f FILE --stack ${shellWord(stackName)}`} />
      <div className="row">
        <button type="button" className="btn" onClick={close}>
          Cancel
        </button>
        <button type="button" className="btn" disabled={text === '' || plan.isPending} onClick={() => plan.mutate()}>
          Show the effect
        </button>
        <button
          type="button"
          className="btn go"
          disabled={plan.data === undefined || deed.isPending || blocked !== null}
          title={blocked ?? (plan.data === undefined ? 'show the effect first' : undefined)}
          onClick={() => deed.mutate({ params: { id: stackId }, body })}
        >
          Submit
        </button>
        <span className="ink-3 f12">{blocked ?? (plan.data === undefined ? 'show the effect first' : '')}</span>
      </div>
    </div>
  )
}

const signs = { added: '+', changed: '~', removed: '-', unchanged: '=' } as const

function Effect({ plan }: { plan: DryRun }) {
  const changed = plan.objects.filter(({ change }) => change !== 'unchanged')
  return (
    <div className="plan-box">
      <p className="ink-2">
        {changed.length} of {plan.objects.length} objects change on {plan.agents.length} {plan.agents.length === 1 ? 'cluster' : 'clusters'}
        .
      </p>
      <ul className="code">
        {changed.map((object) => (
          <li key={`${object.kind} ${object.namespace} ${object.name}`}>
            {signs[object.change]}{' '}
            {plainText(`${object.kind} ${object.namespace === null ? '' : `${object.namespace}/`}${object.name}`, 300)}
          </li>
        ))}
      </ul>
      {plan.warnings.map((warning) => (
        <p key={warning} className="ink-2">
          {plainText(warning)}
        </p>
      ))}
    </div>
  )
}
