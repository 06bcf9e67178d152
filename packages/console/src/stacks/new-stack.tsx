// Creates a stack with its labels.
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useReadonlyReason, useSession } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { Command, shellWord } from '../parts/command.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { ErrorCard } from '../parts/error-card.tsx'

export function NewStack({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate()
  const { session } = useSession()
  const paks = useCall('listPaks', {}, { enabled: typeof session === 'object' && session.isAdmin })
  const [name, setName] = useState('')
  const [labels, setLabels] = useState('')
  const [owner, setOwner] = useState('')
  const blocked = useReadonlyReason()
  const create = useDeed('createStack', (stack) => {
    onClose()
    void navigate({ to: '/stacks/$id', params: { id: stack.id } })
  })
  const own = typeof session === 'object' ? session.generatorId : null
  const generator_id = own ?? (owner === '' ? (paks.data?.[0]?.id ?? '') : owner)
  const reason =
    blocked ?? (generator_id === '' ? 'a stack belongs to a generator; create one under Access' : name === '' ? 'a name is needed' : null)
  return (
    <Dialog title="New stack" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          create.mutate({ body: { name, generator_id, labels: labels.split(/[\s,]+/).filter(Boolean) } })
        }}
      >
        <div className="pad">
          <label className="field">
            <span>Name</span>
            <input className="input mono" value={name} onChange={(event) => setName(event.target.value)} required />
          </label>
          {own === null ? (
            <label className="field">
              <span>Generator</span>
              <select className="select" value={generator_id} onChange={(event) => setOwner(event.target.value)}>
                {(paks.data ?? []).map((generator) => (
                  <option key={generator.id} value={generator.id}>
                    {generator.name}
                  </option>
                ))}
              </select>
            </label>
          ) : null}
          <label className="field">
            <span>Labels; clusters with the same label receive it</span>
            <input className="input mono" value={labels} onChange={(event) => setLabels(event.target.value)} placeholder="env:prod" />
          </label>
          <Command text={`brokkr stacks create ${shellWord(name === '' ? 'NAME' : name)}`} />
          {create.error === null ? null : <ErrorCard error={create.error} />}
        </div>
        <footer className="dialog-foot">
          <span className="ink-3 f12 grow">{reason ?? ''}</span>
          <button type="button" className="btn" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="btn go" disabled={create.isPending || reason !== null} title={reason ?? undefined}>
            Create
          </button>
        </footer>
      </form>
    </Dialog>
  )
}
