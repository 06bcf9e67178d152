// Creates a webhook; its signing secret is shown once.
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { Command, shellWord } from '../parts/command.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { SecretOnce } from '../parts/secret-once.tsx'

export function NewWebhook({ onClose }: { onClose: () => void }) {
  const types = useCall('listEventTypes', {})
  const [name, setName] = useState('')
  const [url, setUrl] = useState('')
  const [events, setEvents] = useState<readonly string[]>(['deployment.*'])
  const create = useDeed('createWebhook')
  const blocked = useReadonlyReason()
  const reason =
    blocked ?? (name === '' ? 'a name is needed' : url === '' ? 'an address is needed' : events.length === 0 ? 'choose events' : null)
  const patterns = [...new Set((types.data ?? []).map((type) => `${type.split('.')[0]}.*`))]
  return (
    <Dialog title="New webhook" onClose={onClose}>
      {create.data === undefined ? (
        <form
          onSubmit={(event) => {
            event.preventDefault()
            create.mutate({ body: { name, url, event_types: [...events] } })
          }}
        >
          <div className="pad">
            <label className="field">
              <span>Name</span>
              <input className="input" value={name} onChange={(event) => setName(event.target.value)} required />
            </label>
            <label className="field">
              <span>Address</span>
              <input className="input mono" value={url} onChange={(event) => setUrl(event.target.value)} placeholder="https://" required />
            </label>
            <fieldset className="choices">
              <legend>Events</legend>
              {patterns.map((pattern) => (
                <label key={pattern} className="check">
                  <input
                    type="checkbox"
                    checked={events.includes(pattern)}
                    onChange={({ target }) =>
                      setEvents((all) => (target.checked ? [...all, pattern] : all.filter((one) => one !== pattern)))
                    }
                  />
                  {pattern}
                </label>
              ))}
            </fieldset>
            {create.error === null ? null : <ErrorCard error={create.error} />}
            <Command
              text={`brokkr webhooks create ${shellWord(name === '' ? 'NAME' : name)} --url ${shellWord(url === '' ? 'URL' : url)}`}
            />
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
      ) : (
        <div className="pad">
          <SecretOnce value={create.data.signing_secret} what="signing secret" />
          <button type="button" className="btn go" onClick={onClose}>
            Done
          </button>
        </div>
      )}
    </Dialog>
  )
}
