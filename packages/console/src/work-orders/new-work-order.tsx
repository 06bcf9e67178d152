// Creates a work order for clusters selected by id or label.
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { Command } from '../parts/command.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { ErrorCard } from '../parts/error-card.tsx'

export function NewWorkOrder({ onClose, onCreated }: { onClose: () => void; onCreated: (id: string) => void }) {
  const fleet = useCall('listFleet', { query: { include: 'agent', limit: 1000 } })
  const [type, setType] = useState('custom')
  const [yaml, setYaml] = useState('')
  const [agentId, setAgentId] = useState('')
  const [label, setLabel] = useState('')
  const blocked = useReadonlyReason()
  const create = useDeed('createWorkOrder', (order) => {
    onClose()
    onCreated(order.id)
  })
  const reason =
    blocked ?? (yaml.trim() === '' ? 'a manifest is needed' : agentId === '' && label === '' ? 'choose a cluster or a label' : null)
  return (
    <Dialog title="New work order" onClose={onClose} isWide>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          create.mutate({
            body: {
              work_type: type,
              yaml_content: yaml,
              targeting: { ...(agentId === '' ? {} : { agent_ids: [agentId] }), ...(label === '' ? {} : { labels: [label] }) },
            },
          })
        }}
      >
        <div className="pad">
          <div className="form-row">
            <label className="field grow">
              <span>Type</span>
              <input className="input mono" value={type} onChange={(event) => setType(event.target.value)} required />
            </label>
            <label className="field grow">
              <span>Cluster</span>
              <select className="select mono" value={agentId} onChange={(event) => setAgentId(event.target.value)}>
                <option value="">any that matches the label</option>
                {(fleet.data ?? []).map((agent) => (
                  <option key={agent.agent_id} value={agent.agent_id}>
                    {agent.name}
                  </option>
                ))}
              </select>
            </label>
            <label className="field grow">
              <span>Label</span>
              <input className="input mono" value={label} onChange={(event) => setLabel(event.target.value)} placeholder="env:prod" />
            </label>
          </div>
          <label className="field">
            <span>Manifest, YAML</span>
            <textarea className="area" rows={12} spellCheck={false} value={yaml} onChange={(event) => setYaml(event.target.value)} />
          </label>
          {create.error === null ? null : <ErrorCard error={create.error} />}
          <Command text={`brokkr work-orders create -f FILE --type ${type}${label === '' ? '' : ` --label ${label}`}`} />
        </div>
        <footer className="dialog-foot">
          <span className="ink-3 f12 grow">{reason ?? ''}</span>
          <button type="button" className="btn" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="btn go" disabled={reason !== null || create.isPending} title={reason ?? undefined}>
            Create
          </button>
        </footer>
      </form>
    </Dialog>
  )
}
