// Sign-in with a key. The key goes into one request and is forgotten; the broker answers with a cookie that scripts cannot read.
import { useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { CallError, call } from '../api/call.ts'
import { rememberSignIn } from '../api/session.tsx'
import { Command } from '../parts/command.tsx'
import { ErrorCard } from '../parts/error-card.tsx'

export function SignIn() {
  const queries = useQueryClient()
  return (
    <main id="content" className="sign-in">
      <div className="card sign-in-card">
        <div className="brand">
          <svg aria-hidden="true">
            <use href="#logo" />
          </svg>
          <h1>Brokkr</h1>
        </div>
        <p className="ink-2">Sign in with a key. It is exchanged for a session and not kept in this browser.</p>
        <SignInForm onSignedIn={() => void queries.invalidateQueries()} />
        <p className="ink-3 f12">The local installation keeps its key in a file:</p>
        <Command text="cat .brokkr/keys/admin.pak" />
        <p className="f12">
          <Link to="/docs" className="link">
            API description
          </Link>
        </p>
      </div>
    </main>
  )
}

export function SignInForm({ onSignedIn }: { onSignedIn: () => void }) {
  const [key, setKey] = useState('')
  const [isReadonly, setReadonly] = useState(false)
  const [error, setError] = useState<Error | null>(null)
  const [isBusy, setBusy] = useState(false)
  const submit = async () => {
    setBusy(true)
    setError(null)
    try {
      const body = isReadonly ? { readonly: true } : {}
      await call('createSession', { body }, { pak: key.trim() })
      setKey('')
      rememberSignIn()
      onSignedIn()
    } catch (failure) {
      setError(toSignInError(failure))
    } finally {
      setBusy(false)
    }
  }
  return (
    <form
      className="pad-form"
      onSubmit={(event) => {
        event.preventDefault()
        void submit()
      }}
    >
      <label className="field">
        <span>Key</span>
        <input
          className="input mono"
          type="password"
          name="key"
          autoComplete="off"
          spellCheck={false}
          placeholder="brokkr_BR…"
          required
          value={key}
          onChange={(event) => setKey(event.target.value)}
        />
      </label>
      <label className="check">
        <input type="checkbox" checked={isReadonly} onChange={(event) => setReadonly(event.target.checked)} />
        Look only, change nothing
      </label>
      {error === null ? null : <ErrorCard error={error} />}
      <button type="submit" className="btn go" disabled={isBusy || key.trim() === ''}>
        {isBusy ? 'Signing in…' : 'Sign in'}
      </button>
    </form>
  )
}

function toSignInError(failure: unknown): Error {
  if (failure instanceof CallError && failure.status === 401)
    return new CallError('createSession', 'the broker does not know this key', {
      status: 400,
      code: 'unauthorized',
      next: 'check the key; a key that expired or was revoked does not work either',
      requestId: failure.requestId,
    })
  return failure instanceof Error ? failure : new Error(String(failure))
}
