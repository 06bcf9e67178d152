// A secret that the broker shows once.
import { CopyButton } from './command.tsx'

export function SecretOnce({ value, what }: { value: string; what: string }) {
  return (
    <div className="secret-once">
      <span className="ink-2">This {what} is shown once. Store it now; the broker keeps only its hash.</span>
      <div className="cmd">
        <code className="grow cmd-text">{value}</code>
        <CopyButton text={value} label={`Copy the ${what}`} />
      </div>
    </div>
  )
}
