// A new template, or the next version of one.
import type { StackTemplate } from '@brokkr/contract/templates/template.ts'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useDeed } from '../api/use-call.ts'
import { Dialog } from '../parts/dialog.tsx'
import { ErrorCard } from '../parts/error-card.tsx'

const emptySchema = '{\n  "type": "object",\n  "properties": {}\n}'

export function EditTemplate({ template, onClose }: { template: StackTemplate | null; onClose: () => void }) {
  const navigate = useNavigate()
  const [name, setName] = useState(template?.name ?? '')
  const [content, setContent] = useState(template?.template_content ?? '')
  const [schema, setSchema] = useState(template?.parameters_schema ?? emptySchema)
  const blocked = useReadonlyReason()
  const open = ({ id }: StackTemplate) => {
    onClose()
    void navigate({ to: '/templates', search: { id } })
  }
  const create = useDeed('createTemplate', open)
  const update = useDeed('updateTemplate', open)
  const error = create.error ?? update.error
  const reason = blocked ?? (name === '' ? 'a name is needed' : content === '' ? 'a template is needed' : null)
  const body = { template_content: content, parameters_schema: schema }
  return (
    <Dialog title={template === null ? 'New template' : `Next version of ${template.name}`} onClose={onClose} isWide>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (template === null) create.mutate({ body: { name, ...body } })
          else update.mutate({ params: { id: template.id }, body })
        }}
      >
        <div className="pad">
          {template === null ? (
            <label className="field">
              <span>Name</span>
              <input className="input mono" value={name} onChange={(event) => setName(event.target.value)} required />
            </label>
          ) : null}
          <label className="field">
            <span>Template, YAML with expressions in double braces</span>
            <textarea className="area" rows={12} spellCheck={false} value={content} onChange={(event) => setContent(event.target.value)} />
          </label>
          <label className="field">
            <span>Schema of the parameters, JSON Schema</span>
            <textarea className="area" rows={8} spellCheck={false} value={schema} onChange={(event) => setSchema(event.target.value)} />
          </label>
          {error === null ? null : <ErrorCard error={error} />}
        </div>
        <footer className="dialog-foot">
          <span className="ink-3 f12 grow">{reason ?? ''}</span>
          <button type="button" className="btn" onClick={onClose}>
            Cancel
          </button>
          <button
            type="submit"
            className="btn go"
            disabled={reason !== null || create.isPending || update.isPending}
            title={reason ?? undefined}
          >
            {template === null ? 'Create' : 'Create version'}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}
